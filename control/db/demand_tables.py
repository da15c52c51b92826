"""The tables of demand: load that gateways were offered, who waits, and what operators say instead of a forecast."""

from typing import Any

import sqlalchemy as sa

from control.db.tables import metadata

COUNTS = ("offered", "refused", "served")
"""Counters that every line and every hour has: `refused` of what was offered."""


def _counts() -> list[sa.Column[Any]]:
    """`work_class`: empty for the requests themselves."""
    key = sa.Column("work_class", sa.Text, primary_key=True), sa.Column("unit", sa.Text, nullable=False)
    return [*key, *(sa.Column(name, sa.BigInteger, nullable=False) for name in COUNTS)]


# A report may come again, and later with more: its revision says which is the newer.
demand_report = sa.Table(
    "demand_report",
    metadata,
    sa.Column("gateway", sa.Text, primary_key=True, comment="its name, and which life of it"),
    sa.Column("started_at", sa.DateTime(timezone=True), primary_key=True),
    sa.Column("seconds", sa.SmallInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
)
sa.Index("ix_demand_report_started_at", demand_report.c.started_at)

# Every served model has one in every report: nothing asked is known, and not the same as nothing heard.
demand_line = sa.Table(
    "demand_line",
    metadata,
    sa.Column("gateway", sa.Text, primary_key=True),
    sa.Column("started_at", sa.DateTime(timezone=True), primary_key=True),
    sa.Column("app", sa.Text, primary_key=True),
    sa.Column("request_type", sa.Text, primary_key=True),
    sa.Column("project", sa.Text, primary_key=True, comment="of the key; empty: the gateway is open"),
    sa.Column("fleet", sa.Text, nullable=False),
    *_counts(),
    sa.ForeignKeyConstraint(
        ["gateway", "started_at"], ["demand_report.gateway", "demand_report.started_at"], ondelete="CASCADE"
    ),
)
sa.Index("ix_demand_line_fleet_started_at", demand_line.c.fleet, demand_line.c.started_at)

# What lines become once no gateway can change them any more.
demand_hour = sa.Table(
    "demand_hour",
    metadata,
    sa.Column("fleet", sa.Text, primary_key=True),
    sa.Column("started_at", sa.DateTime(timezone=True), primary_key=True),
    sa.Column("app", sa.Text, primary_key=True),
    sa.Column("request_type", sa.Text, primary_key=True),
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("seconds", sa.Integer, nullable=False, comment="of the hour, that gateways reported"),
    *_counts(),
)

# What each API key was served, of lines and hours; neither demand nor forecasts are by key.
key_use = sa.Table(
    "key_use",
    metadata,
    sa.Column("started_at", sa.DateTime(timezone=True), primary_key=True),
    sa.Column("gateway", sa.Text, primary_key=True, comment="as in demand_report; empty: an hour of all gateways"),
    sa.Column("fleet", sa.Text, primary_key=True),
    sa.Column("app", sa.Text, primary_key=True),
    sa.Column("request_type", sa.Text, primary_key=True),
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True, comment="public part of the token"),
    sa.Column("work_class", sa.Text, primary_key=True, comment="empty: the requests themselves"),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("served", sa.BigInteger, nullable=False),
)

demand_waiting = sa.Table(
    "demand_waiting",
    metadata,
    sa.Column("fleet", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, primary_key=True),
    sa.Column("app", sa.Text, primary_key=True),
    sa.Column("requests", sa.Integer, nullable=False),
    sa.Column("heard_at", sa.DateTime(timezone=True), nullable=False),
)

# The last report of each replaces the one before: what came a minute ago is in `demand_line`.
demand_recent = sa.Table(
    "demand_recent",
    metadata,
    sa.Column("gateway", sa.Text, primary_key=True, comment="one process of it"),
    sa.Column("heard_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False, comment="its message, JSON"),
)

# Rows are only ever added, but for `ended_at`: who said what and why is kept.
demand_override = sa.Table(
    "demand_override",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("fleet", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("requests_per_s", sa.Double, nullable=False),
    sa.Column("made_by", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("ended_at", sa.DateTime(timezone=True), comment="taken back, or replaced by a later one"),
)
sa.Index("ix_demand_override_fleet_model", demand_override.c.fleet, demand_override.c.model, demand_override.c.id)
