"""Contact info that the owner lets the gate use on their behalf: tokens and the like, each sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text()


def upgrade() -> None:
    op.create_table(
        "contact_info",
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at", TEXT, nullable=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("a ledger is not rolled back; restore a backup instead")
