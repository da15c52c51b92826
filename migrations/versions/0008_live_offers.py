"""Live offers, their prices so far, and what clouds answered"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def _time(name: str, *, nullable: bool = False, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable, comment=comment)


def _text(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.Text(), nullable=False, comment=comment)


def upgrade() -> None:
    op.create_table(
        "market_source",
        _text("cloud"),
        _text("source", "where its offers come from"),
        _time("attempted_at"),
        _time("succeeded_at", nullable=True, comment="null: it never did"),
        _text("left_out", "why its offers are not to be planned with; empty: they are"),
        _text("failure", "of the last attempt; empty: there was none"),
        sa.Column("configs", sa.JSON(), nullable=False, comment="node configurations of its offers"),
        sa.Column("pools", sa.JSON(), nullable=False, comment="the account's quotas"),
        sa.Column("quarantined", sa.JSON(), nullable=False, comment="offers with impossible prices, and why"),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("cloud", name=op.f("pk_market_source")),
    )
    op.create_table(
        "live_offer",
        _text("key"),
        _text("cloud"),
        sa.Column("offer", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_live_offer")),
    )
    op.create_index(op.f("ix_live_offer_cloud"), "live_offer", ["cloud"], unique=False)
    op.create_table(
        "offer_price",
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("key"),
        sa.Column("usd_per_hour", sa.Double(), nullable=True, comment="null: not sold any more"),
        _text("source"),
        _time("observed_at", comment="when the source says that it began"),
        _time("recorded_at"),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_offer_price")),
    )
    op.create_index("ix_offer_price_key", "offer_price", ["key", "sequence"], unique=False)
    op.create_table(
        "market_memory",
        _text("subject", "an offer, a quota family of a region and market, or a cloud"),
        sa.Column("learned", sa.JSON(), nullable=True, comment="null: nothing yet"),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_market_memory")),
    )
    op.create_table(
        "offer_call",
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("offer"),
        _time("at"),
        _text("outcome"),
        _text("reason"),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_offer_call")),
    )
    op.create_index("ix_offer_call_at", "offer_call", ["at"], unique=False)


def downgrade() -> None:
    for name in ("offer_call", "market_memory", "offer_price", "live_offer", "market_source"):
        op.drop_table(name)
