"""Projects have limits of use, and tokens one of requests that are open at the same time"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_PER_GATEWAY = "at each gateway; null: no limit"
_PROJECTS = ("requests_per_minute", "tokens_per_minute", "concurrent_requests")


def upgrade() -> None:
    op.add_column("api_token", sa.Column("concurrent_requests", sa.Integer(), comment=_PER_GATEWAY))
    for name in _PROJECTS:
        op.add_column("project", sa.Column(name, sa.Integer(), comment=_PER_GATEWAY))


def downgrade() -> None:
    for name in reversed(_PROJECTS):
        op.drop_column("project", name)
    op.drop_column("api_token", "concurrent_requests")
