"""Tokens say which pepper they were hashed with"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_PLAIN = "SHA-256 of the secret part"
_BOTH = "SHA-256 of the secret part, or HMAC with the pepper"


def upgrade() -> None:
    op.alter_column("api_token", "digest", existing_type=sa.LargeBinary(), comment=_BOTH, existing_comment=_PLAIN)
    op.add_column(
        "api_token",
        sa.Column("pepper", sa.Text(), nullable=False, server_default="", comment="id of it; empty: none"),
    )


def downgrade() -> None:
    op.drop_column("api_token", "pepper")
    op.alter_column("api_token", "digest", existing_type=sa.LargeBinary(), comment=_PLAIN, existing_comment=_BOTH)
