"""Capacities may be regions: what each class of a template uses of limits that bound them together"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "capacity",
        sa.Column(
            "uses",
            sa.ARRAY(sa.Double()),
            nullable=True,
            comment="what a unit per second takes of each limit that bounds the template's classes together; "
            "null: of none",
        ),
    )
    op.create_index(
        "ix_capacity_limited", "capacity", ["library_id"], unique=False, postgresql_where=sa.text("uses IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_index("ix_capacity_limited", table_name="capacity")
    op.drop_column("capacity", "uses")
