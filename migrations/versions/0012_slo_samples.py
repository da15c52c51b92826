"""How fast gateways answered, minute by minute"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "slo_sample",
        sa.Column("gateway", sa.Text(), nullable=False, comment="its URL"),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("begins_at", sa.DateTime(timezone=True), nullable=False, comment="a minute"),
        sa.Column("ttft", sa.JSON(), nullable=False, comment="histogram, seconds"),
        sa.Column("tpot", sa.JSON(), nullable=False, comment="histogram, seconds"),
        sa.PrimaryKeyConstraint("gateway", "model", "begins_at", name=op.f("pk_slo_sample")),
    )
    op.create_index("ix_slo_sample_model_begins_at", "slo_sample", ["model", "begins_at"], unique=False)


def downgrade() -> None:
    op.drop_table("slo_sample")
