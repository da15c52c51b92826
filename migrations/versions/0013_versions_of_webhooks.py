"""Webhooks have versions, so that a change names what it was judged on"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "webhook",
        sa.Column(
            "version",
            sa.Integer(),
            nullable=False,
            server_default="1",
            comment="+1 a write; a write names the version it was judged on",
        ),
    )


def downgrade() -> None:
    op.drop_column("webhook", "version")
