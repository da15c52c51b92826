"""What a node said of itself last"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("node", sa.Column("load", sa.JSON(), nullable=True, comment="what it said of itself last"))


def downgrade() -> None:
    op.drop_column("node", "load")
