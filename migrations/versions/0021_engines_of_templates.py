"""Templates say which engines their nodes have; of older ones nobody knows"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "library",
        sa.Column(
            "engines", sa.JSON(), nullable=True, comment="engines: template.engine indexes them; null: nobody kept them"
        ),
    )
    op.add_column(
        "template",
        sa.Column(
            "engine", sa.SmallInteger(), nullable=False, server_default="0", comment="index into library.engines"
        ),
    )


def downgrade() -> None:
    op.drop_column("template", "engine")
    op.drop_column("library", "engines")
