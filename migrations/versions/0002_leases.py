"""Writers' roles: who records or schedules a cluster, until when.

Adds a table and changes nothing that is there.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("cluster", sa.Text(), primary_key=True),
        sa.Column("role", sa.Text(), primary_key=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("term", BIG, nullable=False),
        sa.Column("acquired_at", BIG, nullable=False),
        sa.Column("renewed_at", BIG, nullable=False),
        sa.Column("expires_at", BIG, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("a ledger is only ever brought forward")
