"""The tables of budgets, of what fleets have given up for them, and of alerts and where they are sent."""

import sqlalchemy as sa

from control.db.tables import metadata, version_column

budget = sa.Table(
    "budget",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True, comment="fleet or project"),
    sa.Column("name", sa.Text, primary_key=True, comment="of it; it need not exist yet, or any more"),
    sa.Column("usd_per_hour", sa.Double),
    sa.Column("usd_per_month", sa.Double),
    sa.Column("floor_usd_per_hour", sa.Double, nullable=False),
    version_column(),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
)

given_up = sa.Table(
    "given_up",
    metadata,
    sa.Column("fleet", sa.Text, primary_key=True),
    sa.Column("rung", sa.SmallInteger, nullable=False, comment="of policies.degradation; no row: none"),
    sa.Column("reasons", sa.JSON, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
)

webhook = sa.Table(
    "webhook",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("secret", sa.Text, nullable=False, comment="where it is, env:NAME or file:PATH: never itself"),
    sa.Column("kinds", sa.JSON, nullable=False, comment="of alerts to send; empty: all"),
    sa.Column("internal", sa.Boolean, nullable=False, comment="http and addresses of private networks are allowed"),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    version_column(server_default="1"),
)

alert = sa.Table(
    "alert",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("severity", sa.SmallInteger, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, comment="when a rule said so last"),
    sa.Column("resolved_at", sa.DateTime(timezone=True)),
)
# One open alert a subject and kind, whoever else looks at the same time.
sa.Index("uq_alert_open", alert.c.kind, alert.c.subject, unique=True, postgresql_where=sa.text("resolved_at IS NULL"))

# Recorded with the alert, sent after it: none is lost with the process that would have sent it.
delivery = sa.Table(
    "delivery",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("alert_id", sa.ForeignKey("alert.id", ondelete="CASCADE"), nullable=False),
    sa.Column("webhook", sa.ForeignKey("webhook.name", ondelete="CASCADE"), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False, comment="what is sent, byte for byte, every time"),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_at", sa.DateTime(timezone=True), comment="null: it is over"),
    sa.Column("delivered_at", sa.DateTime(timezone=True)),
    sa.Column("outcome", sa.Text, nullable=False, comment="of the last attempt"),
    sa.UniqueConstraint("alert_id", "webhook", "event"),
)
sa.Index("ix_delivery_due", delivery.c.next_at, postgresql_where=sa.text("next_at IS NOT NULL"))
