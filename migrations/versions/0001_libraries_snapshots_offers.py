"""Libraries of templates, snapshots and plans, offers"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "capacity",
        sa.Column("library_id", sa.Integer(), nullable=False),
        sa.Column("unit", sa.SmallInteger(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("point", sa.SmallInteger(), nullable=False),
        sa.Column("class", sa.SmallInteger(), nullable=False),
        sa.Column("units_per_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("library_id", "unit", "ordinal", "point", "class", name=op.f("pk_capacity")),
    )
    op.create_table(
        "library",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False, comment="of the source: what its templates depend on"),
        sa.Column("version", sa.Text(), nullable=True, comment="content hash; null while it is being built"),
        sa.Column("cost_model_fingerprint", sa.Text(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False, comment="of the build, such as n_max and rho"),
        sa.Column(
            "configs", sa.JSON(), nullable=False, comment="node configuration ids: the positions of template.nodes"
        ),
        sa.Column("classes", sa.JSON(), nullable=False, comment="work classes: capacity.class indexes them"),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_library")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_library_fingerprint")),
        sa.UniqueConstraint("version", name=op.f("uq_library_version")),
    )
    op.create_table(
        "offer",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("node_config", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("derived", sa.Boolean(), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("available_count", sa.Integer(), nullable=True),
        sa.Column("interruptions_per_hour", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", "source", name=op.f("pk_offer")),
    )
    op.create_table(
        "offer_history",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("available_count", sa.Integer(), nullable=True),
        sa.Column("interruptions_per_hour", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", "source", "observed_at", name=op.f("pk_offer_history")),
    )
    op.create_table(
        "snapshot",
        sa.Column("version", sa.Text(), nullable=False, comment="content hash"),
        sa.Column("library_version", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_snapshot")),
    )
    op.create_table(
        "template",
        sa.Column("library_id", sa.Integer(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False, comment="content hash, 128 bits"),
        sa.Column("unit", sa.SmallInteger(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False, comment="position within its unit"),
        sa.Column("nodes", sa.LargeBinary(), nullable=False, comment="one byte a configuration: how many nodes"),
        sa.Column("record", sa.LargeBinary(), nullable=False, comment="compact placement, for its source to read"),
        sa.PrimaryKeyConstraint("library_id", "id", name=op.f("pk_template")),
    )
    op.create_table(
        "library_unit",
        sa.Column("library_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=True, comment="of the unit's templates; null: not built yet"),
        sa.Column("sets", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("templates", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("kept", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("seconds", sa.Double(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["library_id"], ["library.id"], name=op.f("fk_library_unit_library_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("library_id", "position", name=op.f("pk_library_unit")),
        sa.UniqueConstraint("library_id", "name", name=op.f("uq_library_unit_library_id_name")),
    )
    op.create_table(
        "plan",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("snapshot_version", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["snapshot_version"], ["snapshot.version"], name=op.f("fk_plan_snapshot_version")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan")),
    )
    op.create_index(op.f("ix_plan_snapshot_version"), "plan", ["snapshot_version"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_plan_snapshot_version"), table_name="plan")
    op.drop_table("plan")
    op.drop_table("library_unit")
    op.drop_table("template")
    op.drop_table("snapshot")
    op.drop_table("offer_history")
    op.drop_table("offer")
    op.drop_table("library")
    op.drop_table("capacity")
