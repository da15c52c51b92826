"""The tables of what nodes cost beside their own rows: prices that changed while they were held, and leaks."""

from sqlalchemy import Column, DateTime, ForeignKey, Index, Numeric, Table, Text, text

from control.db.tables import metadata

# What a node costs from `since` on; until the first such row it costs what its own row says.
node_price = Table(
    "node_price",
    metadata,
    Column("node", ForeignKey("node.name"), primary_key=True),
    Column("since", DateTime(timezone=True), primary_key=True),
    Column("usd_per_hour", Numeric, nullable=False),
)

# Money that no node row explains. A node of it may have no row at all: no foreign key.
leak = Table(
    "leak",
    metadata,
    Column("node", Text, primary_key=True),
    Column("cloud", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False, comment="from when on it was billed unexplained"),
    Column("found_at", DateTime(timezone=True), nullable=False),
    Column("usd_per_hour", Numeric, comment="null: nobody knows"),
    Column("gone_at", DateTime(timezone=True), comment="when its cloud did not list it any more"),
)
Index("ix_leak_open", leak.c.cloud, postgresql_where=text("gone_at IS NULL"))
