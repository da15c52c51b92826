"""The tables of what nodes cost beside their own rows: prices that changed while they were held, and leaks."""

import sqlalchemy as sa

from control.db.tables import metadata

# What a node costs from `since` on; until the first such row it costs what its own row says.
node_price = sa.Table(
    "node_price",
    metadata,
    sa.Column("node", sa.ForeignKey("node.name"), primary_key=True),
    sa.Column("since", sa.DateTime(timezone=True), primary_key=True),
    sa.Column("usd_per_hour", sa.Numeric, nullable=False),
)

# Money that no node row explains. A node of it may have no row at all: no foreign key.
leak = sa.Table(
    "leak",
    metadata,
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("cloud", sa.Text, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False, comment="from when on it was billed unexplained"),
    sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("usd_per_hour", sa.Numeric, comment="null: nobody knows"),
    sa.Column("gone_at", sa.DateTime(timezone=True), comment="when its cloud did not list it any more"),
)
sa.Index("ix_leak_open", leak.c.cloud, postgresql_where=sa.text("gone_at IS NULL"))
