"""Fleets and the plans they are held to, events, the leader"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fleet",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False, comment="as its owner wrote it"),
        sa.Column(
            "folder",
            sa.Text(),
            nullable=False,
            comment="where relative paths of the spec begin; empty: it may name none",
        ),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column(
            "version", sa.Integer(), nullable=False, comment="+1 a write; a write names the version it was judged on"
        ),
        sa.Column("ending", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_fleet")),
    )
    op.create_index(op.f("ix_fleet_project"), "fleet", ["project"], unique=False)
    op.create_table(
        "fleet_target",
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("accepted", sa.Text(), nullable=False, comment="plan that it is held to; empty: none"),
        sa.Column("accepted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("accepted_by", sa.Text(), nullable=False),
        sa.Column("proposed", sa.Text(), nullable=False, comment="plan that waits for approval; empty: none"),
        sa.Column("proposed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["fleet"], ["fleet.name"], name=op.f("fk_fleet_target_fleet_fleet"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("fleet", name=op.f("pk_fleet_target")),
    )
    op.create_table(
        "event",
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False, comment="who"),
        sa.Column("kind", sa.Text(), nullable=False, comment="what"),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False, comment="id of what it is about"),
        sa.Column("text", sa.Text(), nullable=False, comment="why"),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_event")),
    )
    for column in ("fleet", "subject", "kind"):
        op.create_index(f"ix_event_{column}", "event", [column, "sequence"], unique=False)
    op.create_table(
        "leader",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("id = 1", name="one_row"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
    )


def downgrade() -> None:
    for name in ("leader", "event", "fleet_target", "fleet"):
        op.drop_table(name)
