"""The tables of demand: load that gateways were offered, who waits, and what operators say instead of a forecast."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
)

from control.db.tables import metadata

COUNTS = ("offered", "refused", "served")
"""Counters that every line and every hour has: `refused` of what was offered."""


def _counts() -> list[Column[Any]]:
    """`work_class`: empty for the requests themselves."""
    key = Column("work_class", Text, primary_key=True), Column("unit", Text, nullable=False)
    return [*key, *(Column(name, BigInteger, nullable=False) for name in COUNTS)]


# A report may come again, and later with more: its revision says which is the newer.
demand_report = Table(
    "demand_report",
    metadata,
    Column("gateway", Text, primary_key=True, comment="its name, and which life of it"),
    Column("started_at", DateTime(timezone=True), primary_key=True),
    Column("seconds", SmallInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("reported_at", DateTime(timezone=True), nullable=False),
)
Index("ix_demand_report_started_at", demand_report.c.started_at)

# Every served model has one in every report: nothing asked is known, and not the same as nothing heard.
demand_line = Table(
    "demand_line",
    metadata,
    Column("gateway", Text, primary_key=True),
    Column("started_at", DateTime(timezone=True), primary_key=True),
    Column("app", Text, primary_key=True),
    Column("request_type", Text, primary_key=True),
    Column("project", Text, primary_key=True, comment="of the key; empty: the gateway is open"),
    Column("fleet", Text, nullable=False),
    *_counts(),
    ForeignKeyConstraint(
        ["gateway", "started_at"], ["demand_report.gateway", "demand_report.started_at"], ondelete="CASCADE"
    ),
)
Index("ix_demand_line_fleet_started_at", demand_line.c.fleet, demand_line.c.started_at)

# What lines become once no gateway can change them any more.
demand_hour = Table(
    "demand_hour",
    metadata,
    Column("fleet", Text, primary_key=True),
    Column("started_at", DateTime(timezone=True), primary_key=True),
    Column("app", Text, primary_key=True),
    Column("request_type", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("seconds", Integer, nullable=False, comment="of the hour, that gateways reported"),
    *_counts(),
)

demand_waiting = Table(
    "demand_waiting",
    metadata,
    Column("fleet", Text, primary_key=True),
    Column("gateway", Text, primary_key=True),
    Column("app", Text, primary_key=True),
    Column("requests", Integer, nullable=False),
    Column("heard_at", DateTime(timezone=True), nullable=False),
)

# Rows are only ever added, but for `ended_at`: who said what and why is kept.
demand_override = Table(
    "demand_override",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("fleet", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("requests_per_s", Double, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("made_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), comment="taken back, or replaced by a later one"),
)
Index("ix_demand_override_fleet_model", demand_override.c.fleet, demand_override.c.model, demand_override.c.id)
