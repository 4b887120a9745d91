"""The document's log of commands with those too that are no call of an agent's: an undoing, a phone's notification."""

from alembic import op

revision = "home_assistant_0002"
down_revision = "home_assistant_0001"
branch_labels = None
depends_on = None

ISSUED = """(p.kind = 'performing' AND p.tool IN ('ha_call_service', 'ha_activate_scene')
    OR p.kind = 'command' AND p.status = 'sent')"""
"""Word for word in the view too, which otherwise could not use the index."""


def upgrade() -> None:
    op.execute("DROP VIEW ha_command_log")
    op.execute("DROP INDEX ix_ha_command_log_issued_at")
    op.execute(f"CREATE INDEX ix_ha_command_log_issued_at ON entries (at) WHERE {ISSUED.replace('p.', '')}")
    op.execute(COMMAND_LOG)


COMMAND_LOG = f"""
CREATE VIEW ha_command_log AS
SELECT id,
       CASE tool WHEN 'ha_activate_scene' THEN 'scene' ELSE args ->> '$.domain' END AS domain,
       CASE tool WHEN 'ha_activate_scene' THEN 'turn_on' ELSE args ->> '$.service' END AS service,
       CASE WHEN args -> '$.entity_id' IS NULL THEN args -> '$.target'
         WHEN args -> '$.target.entity_id' IS NULL
         THEN json_set(coalesce(args -> '$.target', '{{}}'), '$.entity_id', args -> '$.entity_id')
         ELSE json_set(args -> '$.target', '$.entity_id', (
           SELECT json_group_array(DISTINCT value) FROM (
             SELECT value FROM json_each(args, '$.entity_id')
             UNION ALL SELECT value FROM json_each(args, '$.target.entity_id')))) END AS target,
       CASE tool WHEN 'ha_activate_scene' THEN json_remove(args, '$.entity_id') ELSE args -> '$.data' END AS data,
       coalesce(error, output) AS result,
       output ->> '$.context_id' AS context_id,
       issued_at
FROM (
  SELECT p.id AS id, p.tool AS tool, p.at AS issued_at,
         coalesce(p.body -> '$.command', p.body -> '$.args', (
           SELECT f.body -> '$.args' FROM entries f WHERE f.call_id = p.call_id AND f.id < p.id
           AND f.body -> '$.args' IS NOT NULL ORDER BY f.id LIMIT 1)) AS args,
         s.body -> '$.error' AS error,
         coalesce(s.body -> '$.data', CASE WHEN s.body -> '$.output_hash' IS NOT NULL THEN (
           SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = 'output:' || s.call_id) END) AS output
  FROM entries p LEFT JOIN entries s ON s.call_id = p.call_id AND s.id > p.id AND (
    p.kind = 'performing' AND s.kind = 'settled'
    OR p.kind = 'command' AND s.kind = 'command' AND s.body ->> '$.command_id' = p.body ->> '$.command_id')
  WHERE {ISSUED}
)
"""  # noqa: S608 -- a constant of this file


def downgrade() -> None:
    raise NotImplementedError("a ledger is not rolled back; restore a backup instead")
