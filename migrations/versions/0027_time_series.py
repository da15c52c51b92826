"""Time series: latencies by the hour, load of instances, and capacities"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def _at(about: str) -> sa.Column[Any]:
    return sa.Column("begins_at", sa.DateTime(timezone=True), nullable=False, comment=about)


def _levels() -> list[sa.Column[Any]]:
    names = ("running", "waiting", "kv_blocks", "kv_used", "cpu")
    return [sa.Column(name, sa.Double(), nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "slo_hour",
        sa.Column("model", sa.Text(), nullable=False),
        _at("an hour"),
        sa.Column("ttft", sa.JSON(), nullable=False, comment="histogram, seconds"),
        sa.Column("tpot", sa.JSON(), nullable=False, comment="histogram, seconds"),
        sa.Column("judged", sa.JSON(), nullable=False, comment="answers by work class and objective"),
        sa.PrimaryKeyConstraint("model", "begins_at", name=op.f("pk_slo_hour")),
    )
    op.create_table(
        "instance_load",
        sa.Column("instance_id", sa.Text(), nullable=False),
        _at("five minutes"),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("looks", sa.Integer(), nullable=False),
        *_levels(),
        sa.PrimaryKeyConstraint("instance_id", "begins_at", name=op.f("pk_instance_load")),
    )
    op.create_table(
        "load_hour",
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        _at("an hour"),
        sa.Column("instances", sa.Double(), nullable=False),
        *_levels(),
        sa.PrimaryKeyConstraint("fleet", "model", "zone", "begins_at", name=op.f("pk_load_hour")),
    )
    op.create_table(
        "capacity_sample",
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("work_class", sa.Text(), nullable=False),
        _at("five minutes"),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.Column("units_per_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("fleet", "work_class", "begins_at", name=op.f("pk_capacity_sample")),
    )
    for table in ("slo_hour", "instance_load", "load_hour", "capacity_sample"):
        op.create_index(f"ix_{table}_begins_at", table, ["begins_at"], unique=False)


def downgrade() -> None:
    for table in ("capacity_sample", "load_hour", "instance_load", "slo_hour"):
        op.drop_table(table)
