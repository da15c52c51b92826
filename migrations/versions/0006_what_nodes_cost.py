"""What nodes cost: stamped at launch, changed while held, and leaked"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "node",
        sa.Column(
            "usd_per_hour",
            sa.Numeric(),
            nullable=True,
            comment="of its offer when its intent was recorded; null: launched before prices were",
        ),
    )
    op.add_column(
        "node",
        sa.Column(
            "charged",
            sa.Boolean(),
            server_default="true",
            nullable=False,
            comment="false: refused, nothing was billed",
        ),
    )
    op.add_column(
        "node",
        sa.Column(
            "project",
            sa.Text(),
            server_default="default",
            nullable=False,
            comment="of its fleet when it was launched",
        ),
    )
    op.add_column(
        "node",
        sa.Column("model", sa.Text(), server_default="", nullable=False, comment="of its instance's template"),
    )
    op.execute("UPDATE node SET charged = false WHERE gone_because LIKE 'refused:%'")
    op.execute(
        "UPDATE node SET model = COALESCE(instance.template->>'model', '') "
        "FROM instance WHERE instance.id = node.instance_id"
    )
    op.create_index("ix_node_gone_at", "node", ["gone_at"], unique=False)
    op.create_table(
        "node_price",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("usd_per_hour", sa.Numeric(), nullable=False),
        sa.ForeignKeyConstraint(["node"], ["node.name"], name=op.f("fk_node_price_node_node")),
        sa.PrimaryKeyConstraint("node", "since", name=op.f("pk_node_price")),
    )
    op.create_table(
        "leak",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column(
            "since", sa.DateTime(timezone=True), nullable=False, comment="from when on it was billed unexplained"
        ),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("usd_per_hour", sa.Numeric(), nullable=True, comment="null: nobody knows"),
        sa.Column(
            "gone_at", sa.DateTime(timezone=True), nullable=True, comment="when its cloud did not list it any more"
        ),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_leak")),
    )
    op.create_index("ix_leak_open", "leak", ["cloud"], unique=False, postgresql_where=sa.text("gone_at IS NULL"))


def downgrade() -> None:
    op.drop_table("leak")
    op.drop_table("node_price")
    op.drop_index("ix_node_gone_at", "node")
    for name in ("model", "project", "charged", "usd_per_hour"):
        op.drop_column("node", name)
