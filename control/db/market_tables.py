"""The tables of the market: live offers, what they cost before, where they come from, and what clouds answered."""

from sqlalchemy import JSON, BigInteger, Column, DateTime, Double, Identity, Index, Integer, Table, Text

from control.db.tables import metadata

# One row a cloud that was asked at least once. Whoever writes the cloud's offers locks it first.
market_source = Table(
    "market_source",
    metadata,
    Column("cloud", Text, primary_key=True),
    Column("source", Text, nullable=False, comment="where its offers come from"),
    Column("attempted_at", DateTime(timezone=True), nullable=False),
    Column("succeeded_at", DateTime(timezone=True), comment="null: it never did"),
    Column("left_out", Text, nullable=False, comment="why its offers are not to be planned with; empty: they are"),
    Column("failure", Text, nullable=False, comment="of the last attempt; empty: there was none"),
    Column("configs", JSON, nullable=False, comment="node configurations of its offers"),
    Column("pools", JSON, nullable=False, comment="the account's quotas"),
    Column("quarantined", JSON, nullable=False, comment="offers with impossible prices, and why"),
    Column("notes", JSON, nullable=False),
)

live_offer = Table(
    "live_offer",
    metadata,
    Column("key", Text, primary_key=True),
    Column("cloud", Text, nullable=False, index=True),
    Column("offer", JSON, nullable=False),
)

# Rows are only ever added; a price that stays is not repeated.
offer_price = Table(
    "offer_price",
    metadata,
    Column("sequence", BigInteger, Identity(always=True), primary_key=True),
    Column("key", Text, nullable=False),
    Column("usd_per_hour", Double, comment="null: not sold any more"),
    Column("source", Text, nullable=False),
    Column("observed_at", DateTime(timezone=True), nullable=False, comment="when the source says that it began"),
    Column("recorded_at", DateTime(timezone=True), nullable=False),
    Index("ix_offer_price_key", "key", "sequence"),
)

market_memory = Table(
    "market_memory",
    metadata,
    Column("subject", Text, primary_key=True, comment="an offer, a quota family of a region and market, or a cloud"),
    Column("learned", JSON, comment="null: nothing yet"),
    Column("version", Integer, nullable=False),
)

offer_call = Table(
    "offer_call",
    metadata,
    Column("sequence", BigInteger, Identity(always=True), primary_key=True),
    Column("offer", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index("ix_offer_call_at", "at"),
)
