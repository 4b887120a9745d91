"""The documents' views with every column filled, and the indexes that serve what people ask of them."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

CALL_KINDS = "('held', 'performing', 'settled', 'judged')"
BEGUN = "kind = 'run' AND status = 'running'"

INDEXES = (
    "CREATE INDEX entries_timestamp ON entries (at) WHERE kind = 'settled'",
    "CREATE INDEX entries_tool ON entries (tool, at) WHERE tool IS NOT NULL",
    # Where the agent gave no id of its own, the views show that of the call.
    "CREATE INDEX entries_request ON entries (coalesce(request_id, call_id), agent_id)",
    f"CREATE INDEX entries_begun ON entries (at, run_id) WHERE {BEGUN}",
)
"""A view must repeat the condition of a partial index word for word, or the index does not serve it."""


def upgrade() -> None:
    op.execute("DROP INDEX entries_request")
    for index in INDEXES:
        op.execute(index)
    for name, view in VIEWS.items():
        op.execute(f"DROP VIEW {name}")
        op.execute(view)


OUTPUT = """coalesce(s.body -> '$.data', CASE WHEN s.body -> '$.output_hash' IS NOT NULL THEN (
           SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = 'output:' || s.call_id) END)"""
"""A large result has a blob of its own."""

ANSWER = """FROM entries a WHERE a.call_id = s.call_id AND a.id < s.id
           AND a.body -> '$.resolution' IS NOT NULL ORDER BY a.id DESC LIMIT 1"""
"""The entry that ends a call does not tell who answered where the process that asked was gone by then."""

VIEWS = {
    "audit_log": f"""
CREATE VIEW audit_log AS
SELECT id, request_id, timestamp, tool_name, args, signature, decision, resolution, resolved_by, resolved_at,
       CASE WHEN status = 'success' OR is_erased THEN output
         WHEN output IS NULL THEN json_object('status', status, 'error', json(error))
         ELSE json_object('status', status, 'error', json(error), 'data', json(output)) END AS execution_result,
       agent_id
FROM (
  SELECT s.id AS id,
         coalesce(s.request_id, s.call_id) AS request_id,
         s.at AS timestamp,
         s.tool AS tool_name,
         coalesce(s.body -> '$.args', (
           SELECT f.body -> '$.args' FROM entries f WHERE f.call_id = s.call_id AND f.id < s.id
           AND f.body -> '$.args' IS NOT NULL ORDER BY f.id LIMIT 1)) AS args,
         s.signature AS signature,
         s.body ->> '$.decision' AS decision,
         coalesce(s.body ->> '$.resolution', CASE s.body ->> '$.decision' WHEN 'ask' THEN (
           SELECT a.body ->> '$.resolution' {ANSWER}) END) AS resolution,
         coalesce(s.body ->> '$.resolved_by', CASE s.body ->> '$.decision' WHEN 'ask' THEN (
           SELECT nullif(a.body ->> '$.resolved_by', '') {ANSWER}) END) AS resolved_by,
         coalesce(s.body ->> '$.resolved_at', CASE s.body ->> '$.decision' WHEN 'ask' THEN (
           SELECT a.body ->> '$.resolved_at' {ANSWER}) END) AS resolved_at,
         {OUTPUT} AS output,
         s.body -> '$.error' AS error,
         s.body IS NULL AS is_erased,
         s.status AS status,
         s.agent_id AS agent_id
  FROM entries s WHERE s.kind = 'settled'
)
""",  # noqa: S608 -- constants of this file
    "tool_calls": f"""
CREATE VIEW tool_calls AS
SELECT e.call_id AS call_id,
       e.run_id AS run_id,
       e.body ->> '$.step_index' AS step_index,
       e.tool AS tool_name,
       e.body -> '$.args' AS args_json,
       min(coalesce(e.body ->> '$.started_at', e.at), coalesce((
         SELECT f.body ->> '$.started_at' FROM entries f WHERE f.call_id = e.call_id AND f.id > e.id
         AND f.kind = 'settled' ORDER BY f.id LIMIT 1), e.at)) AS created_at
FROM entries e
WHERE e.kind IN {CALL_KINDS} AND NOT EXISTS (
  SELECT 1 FROM entries f WHERE f.call_id = e.call_id AND f.id < e.id AND f.kind IN {CALL_KINDS})
""",  # noqa: S608 -- constants of this file
    "tool_results": f"""
CREATE VIEW tool_results AS
SELECT call_id, run_id,
       CASE status WHEN 'expired' THEN 'denied' WHEN 'unknown' THEN 'error' ELSE status END AS status,
       CASE WHEN output IS NULL AND error IS NOT NULL AND status IN ('error', 'unknown')
         THEN json_object('error', json(error)) ELSE output END AS output_json,
       error ->> '$.detail' AS error,
       json_object('decision', decision, 'reasons', json(CASE WHEN is_bound THEN reasons ELSE json_array(
         json_object('layer', coalesce(error ->> '$.stage', 'bind'), 'rule', error ->> '$.name',
           'text', error ->> '$.detail')) END)) AS policy_decision_json,
       started_at, ended_at, input_hash, output_hash
FROM (
  SELECT s.call_id AS call_id,
         s.run_id AS run_id,
         s.status AS status,
         {OUTPUT} AS output,
         s.body -> '$.error' AS error,
         s.body ->> '$.decision' AS decision,
         coalesce(s.body ->> '$.signatures', '') <> '[]' AS is_bound,
         coalesce(s.body -> '$.reasons', (
           SELECT f.body -> '$.reasons' FROM entries f WHERE f.call_id = s.call_id AND f.id < s.id
           AND f.body -> '$.reasons' IS NOT NULL ORDER BY f.id DESC LIMIT 1)) AS reasons,
         coalesce(s.body ->> '$.started_at', (
           SELECT f.at FROM entries f WHERE f.call_id = s.call_id ORDER BY f.id LIMIT 1)) AS started_at,
         s.at AS ended_at,
         coalesce(s.body ->> '$.input_hash', (
           SELECT f.body ->> '$.input_hash' FROM entries f WHERE f.call_id = s.call_id AND f.id < s.id
           AND f.body -> '$.input_hash' IS NOT NULL ORDER BY f.id DESC LIMIT 1)) AS input_hash,
         s.body ->> '$.output_hash' AS output_hash
  FROM entries s WHERE s.kind = 'settled' AND s.call_id IS NOT NULL
)
""",  # noqa: S608 -- constants of this file
    "runs": f"""
CREATE VIEW runs AS
SELECT r.run_id AS run_id,
       r.at AS created_at,
       e.at AS completed_at,
       r.body ->> '$.plan_hash' AS plan_hash,
       r.body ->> '$.policy_hash' AS policy_hash,
       (SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = r.body ->> '$.plan_hash') AS plan_json,
       (SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = r.body ->> '$.policy_hash') AS policy_json,
       r.body ->> '$.mode' AS mode,
       coalesce(e.status, 'running') AS status,
       r.body ->> '$.total_steps' AS total_steps,
       coalesce(e.body ->> '$.completed_steps', (
         SELECT count(*) FROM entries s WHERE s.run_id = r.run_id AND s.kind = 'settled'
         AND s.status = 'success')) AS completed_steps,
       coalesce(e.body ->> '$.denied_steps', (
         SELECT count(*) FROM entries s WHERE s.run_id = r.run_id AND s.kind = 'settled'
         AND s.status IN ('denied', 'expired'))) AS denied_steps,
       coalesce(e.body ->> '$.failed_steps', (
         SELECT count(*) FROM entries s WHERE s.run_id = r.run_id AND s.kind = 'settled'
         AND s.status IN ('error', 'unknown'))) AS failed_steps
FROM entries r
LEFT JOIN entries e ON e.run_id = r.run_id AND e.kind = 'run' AND e.status <> 'running'
WHERE r.{BEGUN.replace("status", "r.status")}
""",  # noqa: S608 -- constants of this file
}


def downgrade() -> None:
    raise NotImplementedError("a ledger is not rolled back; restore a backup instead")
