"""Load that gateways were offered, overrides of demand, limits and projects of gateway keys"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_COUNTS = (
    "requests",
    "refused",
    "prompt_tokens",
    "output_tokens",
    "served_requests",
    "served_prompt_tokens",
    "served_output_tokens",
)


def _text(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.Text(), nullable=False, comment=comment)


def _time(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False)


def _counts() -> list[sa.Column[object]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTS]


def upgrade() -> None:
    op.create_table(
        "demand_report",
        _text("gateway", "its name, and which life of it"),
        _time("started_at"),
        sa.Column("seconds", sa.SmallInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        _time("reported_at"),
        sa.PrimaryKeyConstraint("gateway", "started_at", name=op.f("pk_demand_report")),
    )
    op.create_index("ix_demand_report_started_at", "demand_report", ["started_at"], unique=False)
    op.create_table(
        "demand_line",
        _text("gateway"),
        _time("started_at"),
        _text("app"),
        _text("request_type"),
        _text("project", "of the key; empty: the gateway is open"),
        _text("fleet"),
        *_counts(),
        sa.ForeignKeyConstraint(
            ["gateway", "started_at"],
            ["demand_report.gateway", "demand_report.started_at"],
            name=op.f("fk_demand_line_gateway"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("gateway", "started_at", "app", "request_type", "project", name=op.f("pk_demand_line")),
    )
    op.create_index("ix_demand_line_fleet_started_at", "demand_line", ["fleet", "started_at"], unique=False)
    op.create_table(
        "demand_hour",
        _text("fleet"),
        _time("started_at"),
        _text("app"),
        _text("request_type"),
        _text("project"),
        sa.Column("seconds", sa.Integer(), nullable=False, comment="of the hour, that gateways reported"),
        *_counts(),
        sa.PrimaryKeyConstraint("fleet", "started_at", "app", "request_type", "project", name=op.f("pk_demand_hour")),
    )
    op.create_table(
        "demand_waiting",
        _text("fleet"),
        _text("gateway"),
        _text("app"),
        sa.Column("requests", sa.Integer(), nullable=False),
        _time("heard_at"),
        sa.PrimaryKeyConstraint("fleet", "gateway", "app", name=op.f("pk_demand_waiting")),
    )
    op.create_table(
        "demand_override",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("fleet"),
        _text("model"),
        sa.Column("requests_per_s", sa.Double(), nullable=False),
        _text("made_by"),
        _text("reason"),
        _time("made_at"),
        _time("expires_at"),
        sa.Column(
            "ended_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="taken back, or replaced by a later one",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_demand_override")),
    )
    op.create_index("ix_demand_override_fleet_model", "demand_override", ["fleet", "model", "id"], unique=False)
    op.add_column(
        "api_token",
        sa.Column("project", sa.Text(), nullable=False, server_default="default", comment="whose use it is"),
    )
    for name in ("requests_per_minute", "tokens_per_minute"):
        op.add_column(
            "api_token", sa.Column(name, sa.Integer(), nullable=True, comment="at each gateway; null: no limit")
        )


def downgrade() -> None:
    for name in ("tokens_per_minute", "requests_per_minute", "project"):
        op.drop_column("api_token", name)
    for name in ("demand_override", "demand_waiting", "demand_hour", "demand_line", "demand_report"):
        op.drop_table(name)
