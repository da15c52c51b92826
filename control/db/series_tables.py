"""The tables of time series: what is sampled while it is, and the hours that samples become."""

from typing import Any

import sqlalchemy as sa

from control.db.tables import metadata

LEVELS = ("running", "waiting", "kv_blocks", "kv_used", "cpu")
"""What nodes report of themselves: requests, KV blocks, and processors that their engines keep busy."""


def _levels() -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Double, nullable=False) for name in LEVELS]


# What minutes of `slo_sample` become, all gateways together: histograms add up without loss.
slo_hour = sa.Table(
    "slo_hour",
    metadata,
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("begins_at", sa.DateTime(timezone=True), primary_key=True, comment="an hour"),
    sa.Column("ttft", sa.JSON, nullable=False, comment="histogram, seconds"),
    sa.Column("tpot", sa.JSON, nullable=False, comment="histogram, seconds"),
    sa.Column("judged", sa.JSON, nullable=False, comment="answers by work class and objective"),
)
sa.Index("ix_slo_hour_begins_at", slo_hour.c.begins_at)

# Sums over the looks of five minutes. Any number of processes may look: the mean stays what it is.
instance_load = sa.Table(
    "instance_load",
    metadata,
    sa.Column("instance_id", sa.Text, primary_key=True),
    sa.Column("begins_at", sa.DateTime(timezone=True), primary_key=True, comment="five minutes"),
    sa.Column("fleet", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("zone", sa.Text, nullable=False),
    sa.Column("looks", sa.Integer, nullable=False),
    *_levels(),
)
sa.Index("ix_instance_load_begins_at", instance_load.c.begins_at)

# What they become: means of an hour.
load_hour = sa.Table(
    "load_hour",
    metadata,
    sa.Column("fleet", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("zone", sa.Text, primary_key=True),
    sa.Column("begins_at", sa.DateTime(timezone=True), primary_key=True, comment="an hour"),
    sa.Column("instances", sa.Double, nullable=False),
    *_levels(),
)
sa.Index("ix_load_hour_begins_at", load_hour.c.begins_at)

# What ready instances were planned to sustain: sums over looks, as above.
capacity_sample = sa.Table(
    "capacity_sample",
    metadata,
    sa.Column("fleet", sa.Text, primary_key=True),
    sa.Column("work_class", sa.Text, primary_key=True),
    sa.Column("begins_at", sa.DateTime(timezone=True), primary_key=True, comment="five minutes"),
    sa.Column("looks", sa.Integer, nullable=False),
    sa.Column("units_per_s", sa.Double, nullable=False),
)
sa.Index("ix_capacity_sample_begins_at", capacity_sample.c.begins_at)
