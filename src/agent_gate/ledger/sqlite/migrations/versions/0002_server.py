"""Side tables of a server: grants, results that wait for their agent, messages about questions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TEXT = sa.Text()


def upgrade() -> None:
    op.create_table(
        "grants",
        sa.Column("grant_id", TEXT, primary_key=True),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("agent_id", TEXT, nullable=False),
        sa.Column("tool", TEXT, nullable=False),
        sa.Column("signature", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("given_by", TEXT, nullable=False),
        sa.Column("roles", TEXT, nullable=False),
        sa.Column("call_id", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("expires_at", TEXT, nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("revoked_at", TEXT),
    )
    op.create_index("grants_key", "grants", ["project", "agent_id", "key"])
    op.create_table(
        "waiting_results",
        sa.Column("agent_id", TEXT, primary_key=True),
        sa.Column("call_id", TEXT, primary_key=True),
        sa.Column("request_id", TEXT),
        sa.Column("at", TEXT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "question_messages",
        sa.Column("channel", TEXT, primary_key=True),
        sa.Column("call_id", TEXT, primary_key=True),
        sa.Column("reference", TEXT, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("pending_requests_agent", "pending_requests", ["agent_id"])
    op.create_index(
        "pending_requests_resolved", "pending_requests", ["call_id"], sqlite_where=sa.text("resolution IS NOT NULL")
    )


def downgrade() -> None:
    raise NotImplementedError("a ledger is not rolled back; restore a backup instead")
