"""What keeps a fleet from being planned or run is on record, for everybody to see"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "fleet_target",
        sa.Column(
            "trouble",
            sa.Text(),
            nullable=False,
            server_default="",
            comment="why it cannot be planned or run now, as the loop says; empty: it can",
        ),
    )


def downgrade() -> None:
    op.drop_column("fleet_target", "trouble")
