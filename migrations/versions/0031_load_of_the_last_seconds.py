"""What gateways said last of the seconds before"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "demand_recent",
        sa.Column("gateway", sa.Text(), nullable=False, comment="one process of it"),
        sa.Column("heard_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False, comment="its message, JSON"),
        sa.PrimaryKeyConstraint("gateway", name=op.f("pk_demand_recent")),
    )


def downgrade() -> None:
    op.drop_table("demand_recent")
