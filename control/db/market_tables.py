"""The tables of the market: live offers, what they cost before, where they come from, and what clouds answered."""

import sqlalchemy as sa

from control.db.tables import metadata

# One row a cloud that was asked at least once. Whoever writes the cloud's offers locks it first.
market_source = sa.Table(
    "market_source",
    metadata,
    sa.Column("cloud", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, nullable=False, comment="where its offers come from"),
    sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("succeeded_at", sa.DateTime(timezone=True), comment="null: it never did"),
    sa.Column(
        "left_out", sa.Text, nullable=False, comment="why its offers are not to be planned with; empty: they are"
    ),
    sa.Column("failure", sa.Text, nullable=False, comment="of the last attempt; empty: there was none"),
    sa.Column("configs", sa.JSON, nullable=False, comment="node configurations of its offers"),
    sa.Column("pools", sa.JSON, nullable=False, comment="the account's quotas"),
    sa.Column("quarantined", sa.JSON, nullable=False, comment="offers with impossible prices, and why"),
    sa.Column("notes", sa.JSON, nullable=False),
)

live_offer = sa.Table(
    "live_offer",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("cloud", sa.Text, nullable=False, index=True),
    sa.Column("offer", sa.JSON, nullable=False),
)

# Rows are only ever added; a price that stays is not repeated.
offer_price = sa.Table(
    "offer_price",
    metadata,
    sa.Column("sequence", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("usd_per_hour", sa.Double, comment="null: not sold any more"),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False, comment="when the source says that it began"),
    sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("ix_offer_price_key", "key", "sequence"),
)

market_memory = sa.Table(
    "market_memory",
    metadata,
    sa.Column(
        "subject", sa.Text, primary_key=True, comment="an offer, a quota family of a region and market, or a cloud"
    ),
    sa.Column("learned", sa.JSON, comment="null: nothing yet"),
    sa.Column("version", sa.Integer, nullable=False),
)

offer_call = sa.Table(
    "offer_call",
    metadata,
    sa.Column("sequence", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("offer", sa.Text, nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Index("ix_offer_call_at", "at"),
)
