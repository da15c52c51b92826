"""Failed calls that the code of their run went on without: a run that is resumed leaves them alone"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "workflow_call",
        sa.Column(
            "caught",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="the code of the run went on without its result",
        ),
    )


def downgrade() -> None:
    op.drop_column("workflow_call", "caught")
