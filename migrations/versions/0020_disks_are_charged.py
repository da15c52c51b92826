"""A node's disk is charged beside the price of its offer"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "node",
        sa.Column(
            "disk_usd_per_hour",
            sa.Numeric(),
            nullable=False,
            server_default="0",
            comment="of its disk, beside its offer: as its plan was charged",
        ),
    )


def downgrade() -> None:
    op.drop_column("node", "disk_usd_per_hour")
