"""The tables of budgets, of what fleets have given up for them, and of alerts and where they are sent."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from control.db.tables import metadata

budget = Table(
    "budget",
    metadata,
    Column("scope", Text, primary_key=True, comment="fleet or project"),
    Column("name", Text, primary_key=True, comment="of it; it need not exist yet, or any more"),
    Column("usd_per_hour", Double),
    Column("usd_per_month", Double),
    Column("floor_usd_per_hour", Double, nullable=False),
    Column("version", Integer, nullable=False, comment="+1 a write; a write names the version it was judged on"),
    Column("updated_at", DateTime(timezone=True), nullable=False),
)

given_up = Table(
    "given_up",
    metadata,
    Column("fleet", Text, primary_key=True),
    Column("rung", SmallInteger, nullable=False, comment="of policies.degradation; no row: none"),
    Column("reasons", JSON, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False),
)

webhook = Table(
    "webhook",
    metadata,
    Column("name", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False, comment="where it is, env:NAME or file:PATH: never itself"),
    Column("kinds", JSON, nullable=False, comment="of alerts to send; empty: all"),
    Column("internal", Boolean, nullable=False, comment="http and addresses of private networks are allowed"),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column(
        "version",
        Integer,
        nullable=False,
        server_default="1",
        comment="+1 a write; a write names the version it was judged on",
    ),
)

alert = Table(
    "alert",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("severity", SmallInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("opened_at", DateTime(timezone=True), nullable=False),
    Column("seen_at", DateTime(timezone=True), nullable=False, comment="when a rule said so last"),
    Column("resolved_at", DateTime(timezone=True)),
)
# One open alert a subject and kind, whoever else looks at the same time.
Index("uq_alert_open", alert.c.kind, alert.c.subject, unique=True, postgresql_where=text("resolved_at IS NULL"))

# Recorded with the alert, sent after it: none is lost with the process that would have sent it.
delivery = Table(
    "delivery",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("alert_id", ForeignKey("alert.id", ondelete="CASCADE"), nullable=False),
    Column("webhook", ForeignKey("webhook.name", ondelete="CASCADE"), nullable=False),
    Column("event", Text, nullable=False),
    Column("body", Text, nullable=False, comment="what is sent, byte for byte, every time"),
    Column("attempts", Integer, nullable=False),
    Column("next_at", DateTime(timezone=True), comment="null: it is over"),
    Column("delivered_at", DateTime(timezone=True)),
    Column("outcome", Text, nullable=False, comment="of the last attempt"),
    UniqueConstraint("alert_id", "webhook", "event"),
)
Index("ix_delivery_due", delivery.c.next_at, postgresql_where=text("next_at IS NOT NULL"))
