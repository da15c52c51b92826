"""Tokens have a priority: that of the requests of their holders, at the most"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "api_token",
        sa.Column(
            "priority",
            sa.Text(),
            nullable=False,
            server_default="standard",
            comment="of its holder's requests, at the most: interactive, standard or batch",
        ),
    )


def downgrade() -> None:
    op.drop_column("api_token", "priority")
