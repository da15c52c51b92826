"""Budgets, what fleets have given up for them, alerts and where they are sent"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "budget",
        sa.Column("scope", sa.Text(), nullable=False, comment="fleet or project"),
        sa.Column("name", sa.Text(), nullable=False, comment="of it; it need not exist yet, or any more"),
        sa.Column("usd_per_hour", sa.Double(), nullable=True),
        sa.Column("usd_per_month", sa.Double(), nullable=True),
        sa.Column("floor_usd_per_hour", sa.Double(), nullable=False),
        sa.Column(
            "version", sa.Integer(), nullable=False, comment="+1 a write; a write names the version it was judged on"
        ),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_budget")),
    )
    op.create_table(
        "given_up",
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("rung", sa.SmallInteger(), nullable=False, comment="of policies.degradation; no row: none"),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("fleet", name=op.f("pk_given_up")),
    )
    op.create_table(
        "webhook",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False, comment="where it is, env:NAME or file:PATH: never itself"),
        sa.Column("kinds", sa.JSON(), nullable=False, comment="of alerts to send; empty: all"),
        sa.Column(
            "internal", sa.Boolean(), nullable=False, comment="http and addresses of private networks are allowed"
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhook")),
    )
    op.create_table(
        "alert",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("severity", sa.SmallInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, comment="when a rule said so last"),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert")),
    )
    op.create_index(
        "uq_alert_open", "alert", ["kind", "subject"], unique=True, postgresql_where=sa.text("resolved_at IS NULL")
    )
    op.create_table(
        "delivery",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("alert_id", sa.BigInteger(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False, comment="what is sent, byte for byte, every time"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True, comment="null: it is over"),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False, comment="of the last attempt"),
        sa.ForeignKeyConstraint(
            ["alert_id"], ["alert.id"], name=op.f("fk_delivery_alert_id_alert"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["webhook"], ["webhook.name"], name=op.f("fk_delivery_webhook_webhook"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
        sa.UniqueConstraint("alert_id", "webhook", "event", name=op.f("uq_delivery_alert_id_webhook_event")),
    )
    op.create_index(
        "ix_delivery_due", "delivery", ["next_at"], unique=False, postgresql_where=sa.text("next_at IS NOT NULL")
    )


def downgrade() -> None:
    for name in ("delivery", "alert", "webhook", "given_up", "budget"):
        op.drop_table(name)
