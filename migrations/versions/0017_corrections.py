"""Certified capacities are corrected by what answers kept"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "correction",
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("work_class", sa.Text(), nullable=False),
        sa.Column("factor", sa.Double(), nullable=False, comment="of the certified capacity"),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("was_given_back", sa.Boolean(), nullable=False, comment="the last change was a step towards 1"),
        sa.Column(
            "fell_short_at", sa.Double(), comment="share of the capacity used when answers fell short; null: never"
        ),
        sa.Column("relapses", sa.Integer(), nullable=False, comment="steps towards 1 that a shortfall followed"),
        sa.Column("cost_model", sa.Text(), nullable=False, comment="fingerprint of the step times that it corrects"),
        sa.ForeignKeyConstraint(["fleet"], ["fleet.name"], name=op.f("fk_correction_fleet_fleet"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("fleet", "work_class", name=op.f("pk_correction")),
    )


def downgrade() -> None:
    op.drop_table("correction")
