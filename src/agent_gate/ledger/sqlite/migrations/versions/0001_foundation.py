"""The ledger's tables and the documents' views."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = ("core",)
depends_on = None

TEXT = sa.Text()
HASH = sa.LargeBinary(32)


def upgrade() -> None:
    _create_chain()
    _create_state()
    _create_work_tables()
    for view in VIEWS:
        op.execute(view)


def _create_chain() -> None:
    op.create_table(
        "entries",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("run_id", TEXT),
        sa.Column("call_id", TEXT),
        sa.Column("request_id", TEXT),
        sa.Column("agent_id", TEXT),
        sa.Column("tool", TEXT),
        sa.Column("signature", TEXT),
        sa.Column("status", TEXT),
        sa.Column("body", TEXT),
        sa.Column("body_hash", HASH, nullable=False),
        sa.Column("prev_hash", HASH, nullable=False),
        sa.Column("hash", HASH, nullable=False),
    )
    op.create_index("entries_chain", "entries", ["project", "seq"], unique=True)
    op.create_index("entries_call", "entries", ["call_id"], sqlite_where=sa.text("call_id IS NOT NULL"))
    op.create_index("entries_run", "entries", ["run_id"], sqlite_where=sa.text("run_id IS NOT NULL"))
    for kind in ("policy", "tools", "run", "erased"):
        op.create_index(f"entries_{kind}_kind", "entries", ["id"], sqlite_where=sa.text(f"kind = '{kind}'"))
    op.create_table(
        "heads",
        sa.Column("project", TEXT, primary_key=True),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", HASH, nullable=False),
        sa.Column("state_version", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("initial_state", TEXT),
        sa.Column("state_schema", TEXT),
        sqlite_with_rowid=False,
    )
    for project in ("default", "_gate"):
        op.execute(
            sa.text(
                "INSERT INTO heads (project, seq, hash, state_version, status, created_at)"
                " VALUES (:project, 0, zeroblob(32), 0, 'open', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"
            ).bindparams(project=project)
        )


def _create_state() -> None:
    op.create_table(
        "snapshots",
        sa.Column("snapshot_id", TEXT, primary_key=True),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.Column("call_id", TEXT),
        sa.Column("document", TEXT, nullable=False),
    )
    op.create_index("snapshots_version", "snapshots", ["project", "version"], unique=True)
    op.create_table(
        "blobs",
        sa.Column("hash", TEXT, primary_key=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
    )


def _create_work_tables() -> None:
    op.create_table(
        "requests",
        sa.Column("agent_id", TEXT, primary_key=True),
        sa.Column("request_id", TEXT, primary_key=True),
        sa.Column("call_id", TEXT, nullable=False),
        sa.Column("input_hash", TEXT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "open_work",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("instance", TEXT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "pending_requests",
        sa.Column("call_id", TEXT, primary_key=True),
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("project", TEXT),
        sa.Column("agent_id", TEXT),
        sa.Column("tool_name", TEXT, nullable=False),
        sa.Column("args", TEXT, nullable=False),
        sa.Column("signature", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("expires_at", TEXT, nullable=False),
        sa.Column("question", TEXT),
        sa.Column("nonce", TEXT),
        sa.Column("approvers_required", sa.Integer(), nullable=False),
        sa.Column("approved_by", TEXT, nullable=False),
        sa.Column("resolution", TEXT),
        sa.Column("instance", TEXT),
    )
    op.create_index("pending_requests_request", "pending_requests", ["request_id"])
    op.create_index("pending_requests_expiry", "pending_requests", ["expires_at"])
    op.create_table(
        "refusals",
        sa.Column("project", TEXT, primary_key=True),
        sa.Column("signature", TEXT, primary_key=True),
        sa.Column("at", TEXT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "counters",
        sa.Column("project", TEXT, primary_key=True),
        sa.Column("scope", TEXT, primary_key=True),
        sa.Column("bucket", sa.Integer(), primary_key=True),
        sa.Column("amount", sa.Float(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "outbox",
        sa.Column("effect_id", TEXT, primary_key=True),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("call_id", TEXT, nullable=False),
        sa.Column("tool", TEXT, nullable=False),
        sa.Column("payload", TEXT, nullable=False),
        sa.Column("instance", TEXT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("outbox_call", "outbox", ["call_id"])


CALL_KINDS = "('held', 'performing', 'settled', 'judged')"

VIEWS = (
    """
CREATE VIEW audit_log AS
SELECT s.id AS id,
       coalesce(s.request_id, s.call_id) AS request_id,
       s.at AS timestamp,
       s.tool AS tool_name,
       coalesce(s.body -> '$.args', (
         SELECT f.body -> '$.args' FROM entries f
         WHERE f.call_id = s.call_id AND f.seq < s.seq ORDER BY f.seq LIMIT 1)) AS args,
       s.signature AS signature,
       s.body ->> '$.decision' AS decision,
       s.body ->> '$.resolution' AS resolution,
       s.body ->> '$.resolved_by' AS resolved_by,
       s.body ->> '$.resolved_at' AS resolved_at,
       s.body -> '$.data' AS execution_result,
       s.agent_id AS agent_id
FROM entries s WHERE s.kind = 'settled'
""",
    f"""
CREATE VIEW tool_calls AS
SELECT e.call_id AS call_id,
       e.run_id AS run_id,
       e.body ->> '$.step_index' AS step_index,
       e.tool AS tool_name,
       e.body -> '$.args' AS args_json,
       coalesce(e.body ->> '$.started_at', e.at) AS created_at
FROM entries e
WHERE e.kind IN {CALL_KINDS} AND NOT EXISTS (
  SELECT 1 FROM entries f WHERE f.call_id = e.call_id AND f.seq < e.seq
  AND f.kind IN {CALL_KINDS})
""",  # noqa: S608 -- a constant of this file
    """
CREATE VIEW tool_results AS
SELECT e.call_id AS call_id,
       e.run_id AS run_id,
       CASE e.status WHEN 'expired' THEN 'denied' WHEN 'unknown' THEN 'error' ELSE e.status END AS status,
       e.body -> '$.data' AS output_json,
       e.body ->> '$.error.detail' AS error,
       json_object('decision', e.body ->> '$.decision', 'reasons', e.body -> '$.reasons') AS policy_decision_json,
       coalesce(e.body ->> '$.started_at', e.at) AS started_at,
       coalesce(e.body ->> '$.ended_at', e.at) AS ended_at,
       e.body ->> '$.input_hash' AS input_hash,
       e.body ->> '$.output_hash' AS output_hash
FROM entries e WHERE e.kind = 'settled' AND e.call_id IS NOT NULL
""",
    """
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
       coalesce(e.body ->> '$.completed_steps', 0) AS completed_steps,
       coalesce(e.body ->> '$.denied_steps', 0) AS denied_steps,
       coalesce(e.body ->> '$.failed_steps', 0) AS failed_steps
FROM entries r
LEFT JOIN entries e ON e.run_id = r.run_id AND e.kind = 'run' AND e.status <> 'running'
WHERE r.kind = 'run' AND r.status = 'running'
""",
)


def downgrade() -> None:
    raise NotImplementedError("a ledger is not rolled back; restore a backup instead")
