"""Plans have the name of their fleet; offers are kept in the snapshots that saw them, and nowhere else"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plan", sa.Column("name", sa.Text(), server_default="", nullable=False, comment="of the fleet"))
    op.drop_table("offer_history")
    op.drop_table("offer")


def downgrade() -> None:
    op.create_table(
        "offer",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("node_config", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("derived", sa.Boolean(), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("available_count", sa.Integer(), nullable=True),
        sa.Column("interruptions_per_hour", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", "source", name=op.f("pk_offer")),
    )
    op.create_table(
        "offer_history",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("available_count", sa.Integer(), nullable=True),
        sa.Column("interruptions_per_hour", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", "source", "observed_at", name=op.f("pk_offer_history")),
    )
    op.drop_column("plan", "name")
