"""What each API key was served, by model and work class"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def _key(name: str, comment: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False, comment=comment)


def upgrade() -> None:
    key = ("started_at", "gateway", "fleet", "app", "request_type", "project", "key", "work_class")
    op.create_table(
        "key_use",
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        _key("gateway", "as in demand_report; empty: an hour of all gateways"),
        _key("fleet"),
        _key("app"),
        _key("request_type"),
        _key("project"),
        _key("key", "public part of the token"),
        _key("work_class", "empty: the requests themselves"),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("served", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_key_use")),
    )


def downgrade() -> None:
    op.drop_table("key_use")
