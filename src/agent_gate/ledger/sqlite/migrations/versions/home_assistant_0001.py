"""Tables of the service home_assistant: entities as they were last seen, and its document's log of commands."""

import sqlalchemy as sa
from alembic import op

revision = "home_assistant_0001"
down_revision = None
branch_labels = ("home_assistant",)
depends_on = "0001"

TEXT = sa.Text()


def upgrade() -> None:
    op.create_table(
        "ha_entity_snapshot",
        sa.Column("entity_id", TEXT, primary_key=True),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("attributes", TEXT),
        sa.Column("last_updated", TEXT, nullable=False),
        sa.Column("captured_at", TEXT, nullable=False),
    )
    op.create_index("ix_ha_command_log_issued_at", "entries", ["at"], sqlite_where=sa.text(ISSUED))
    op.execute(COMMAND_LOG)


ISSUED = "kind = 'performing' AND tool IN ('ha_call_service', 'ha_activate_scene')"
"""Word for word in the view too, which otherwise could not use the index."""

COMMAND_LOG = """
CREATE VIEW ha_command_log AS
SELECT id,
       CASE tool WHEN 'ha_activate_scene' THEN 'scene' ELSE args ->> '$.domain' END AS domain,
       CASE tool WHEN 'ha_activate_scene' THEN 'turn_on' ELSE args ->> '$.service' END AS service,
       CASE WHEN args -> '$.entity_id' IS NULL THEN args -> '$.target'
         WHEN args -> '$.target.entity_id' IS NULL
         THEN json_set(coalesce(args -> '$.target', '{}'), '$.entity_id', args -> '$.entity_id')
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
         coalesce(p.body -> '$.args', (
           SELECT f.body -> '$.args' FROM entries f
           WHERE f.call_id = p.call_id AND f.seq < p.seq ORDER BY f.seq LIMIT 1)) AS args,
         s.body -> '$.error' AS error,
         coalesce(s.body -> '$.data', (
           SELECT CAST(b.data AS TEXT) FROM blobs b WHERE b.hash = 'output:' || s.call_id)) AS output
  FROM entries p CROSS JOIN entries s ON s.call_id = p.call_id AND s.kind = 'settled'
  WHERE p.kind = 'performing' AND p.tool IN ('ha_call_service', 'ha_activate_scene')
)
"""


def downgrade() -> None:
    raise NotImplementedError("a ledger is not rolled back; restore a backup instead")
