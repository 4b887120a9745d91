"""Indexes by which a decision finds the entries behind what it reads, and an entry from where on all have one.

Entries of earlier releases do not say what their transaction counted, so the counters as they stood are written down.
"""

import os

import sqlalchemy as sa
from alembic import op

from agent_gate.ledger.chain import seal
from agent_gate.model.codec import canonical
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TEXT = sa.Text()

HAS_TOTALS = "instr(body, '\"totals\":{') > 0 AND body -> '$.work.totals' IS NOT NULL"
INDEXES = (
    "CREATE INDEX entries_grant ON entries (body ->> '$.grant_id') WHERE kind = 'grant'",
    "CREATE INDEX entries_request ON entries (agent_id, request_id) WHERE request_id IS NOT NULL",
    "CREATE INDEX entries_standing ON entries (project, seq) WHERE kind = 'project'",
    f"CREATE INDEX entries_totals ON entries (project, seq) WHERE {HAS_TOTALS}",
    "CREATE INDEX entries_clock_kind ON entries (id) WHERE kind = 'clock'",
)
ENTRY = (
    "INSERT INTO entries (project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, signature, status,"
    " body, body_hash, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def upgrade() -> None:
    for index in INDEXES:
        op.execute(index)
    op.add_column("pending_requests", sa.Column("boot", TEXT))
    op.add_column("pending_requests", sa.Column("ends_at", sa.Float()))
    op.add_column("refusals", sa.Column("call_id", TEXT))
    boot, offset = sa.Column("boot", TEXT, primary_key=True), sa.Column("offset_s", sa.Float(), nullable=False)
    op.create_table("clock", boot, offset)
    connection = op.get_bind()
    if connection.exec_driver_sql("SELECT 1 FROM entries LIMIT 1").fetchone():
        _name_refusals(connection)
        for grant_id, uses in connection.exec_driver_sql(USED_GRANTS).fetchall():
            # So far only the calls themselves told of these uses.
            _append(connection, Kind.GRANT, "used", {"grant_id": grant_id, "uses": uses})
        counters = [list(row) for row in connection.exec_driver_sql("SELECT * FROM counters").fetchall()]
        _append(connection, Kind.SCHEMA, revision, {"counters": counters})


USED_GRANTS = "SELECT grant_id, uses - uses_left FROM grants WHERE uses_left < uses ORDER BY grant_id"


def _name_refusals(connection: sa.Connection) -> None:
    """Name the call that a person said no to, where the cooldown after it is still known."""
    connection.exec_driver_sql(
        "UPDATE refusals SET call_id = e.call_id FROM entries e"
        " WHERE e.kind = 'answered' AND e.status = 'denied' AND e.project = refusals.project AND e.at = refusals.at"
    )


def _append(connection: sa.Connection, kind: Kind, status: str, fields: dict[str, object]) -> None:
    """One entry at the end of the gate's own chain."""
    found = connection.exec_driver_sql("SELECT seq, hash FROM heads WHERE project = ?", (GATE_PROJECT,)).one()
    (at,) = connection.exec_driver_sql("SELECT strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')").one()
    draft = Draft(kind, at, canonical({**fields, "salt": os.urandom(16).hex()}), status=status)
    row, hash = seal(GATE_PROJECT, found[0] + 1, found[1], draft)
    connection.exec_driver_sql(ENTRY, row)
    connection.exec_driver_sql(
        "UPDATE heads SET seq = ?, hash = ? WHERE project = ?", (found[0] + 1, hash, GATE_PROJECT)
    )


def downgrade() -> None:
    raise NotImplementedError("a ledger is not rolled back; restore a backup instead")
