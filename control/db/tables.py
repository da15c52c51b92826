"""The tables, as SQLAlchemy knows them. `migrations/versions` makes them; a test holds the two equal."""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def version_column(**settings: Any) -> sa.Column[int]:
    """Make the column that guards writes (`control.db.guarded`)."""
    comment = "+1 a write; a write names the version it was judged on"
    return sa.Column("version", sa.Integer, nullable=False, comment=comment, **settings)


def _created_at() -> sa.Column[object]:
    return sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


library = sa.Table(
    "library",
    metadata,
    sa.Column("id", sa.Integer, sa.Identity(always=True), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column(
        "fingerprint", sa.Text, nullable=False, unique=True, comment="of the source: what its templates depend on"
    ),
    sa.Column("version", sa.Text, unique=True, comment="content hash; null while it is being built"),
    sa.Column("cost_model_fingerprint", sa.Text, nullable=False),
    sa.Column("parameters", sa.JSON, nullable=False, comment="of the build, such as n_max and rho"),
    sa.Column("configs", sa.JSON, nullable=False, comment="node configuration ids: the positions of template.nodes"),
    sa.Column("classes", sa.JSON, nullable=False, comment="work classes: capacity.class indexes them"),
    sa.Column("engines", sa.JSON, comment="engines: template.engine indexes them; null: nobody kept them"),
    _created_at(),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
)

library_unit = sa.Table(
    "library_unit",
    metadata,
    sa.Column("library_id", sa.ForeignKey("library.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, comment="of the unit's templates; null: not built yet"),
    sa.Column("sets", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("templates", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("kept", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("seconds", sa.Double, nullable=False, server_default="0"),
    sa.UniqueConstraint("library_id", "name"),
)

library_part = sa.Table(
    "library_part",
    metadata,
    sa.Column("library_id", sa.ForeignKey("library.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("part_id", sa.ForeignKey("library.id"), nullable=False, comment="whose templates it has; it has no own"),
)

# The two bulk tables have no foreign keys: checked row by row, they would cost more than the load itself. Their only
# writer puts them and the unit's row down in one transaction.
template = sa.Table(
    "template",
    metadata,
    sa.Column("library_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Uuid, primary_key=True, comment="content hash, 128 bits"),
    sa.Column("unit", sa.SmallInteger, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False, comment="position within its unit"),
    sa.Column("nodes", sa.LargeBinary, nullable=False, comment="one byte a configuration: how many nodes"),
    sa.Column("record", sa.LargeBinary, nullable=False, comment="compact placement, for its source to read"),
    sa.Column("engine", sa.SmallInteger, nullable=False, server_default="0", comment="index into library.engines"),
)

capacity = sa.Table(
    "capacity",
    metadata,
    sa.Column("library_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("unit", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("point", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("class", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("units_per_s", sa.Double, nullable=False),
    sa.Column(
        "uses",
        sa.ARRAY(sa.Double),
        comment="what a unit per second takes of each limit that bounds the template's classes together; null: of none",
    ),
)
# Most libraries have no limits: they are not read through to find that out.
sa.Index("ix_capacity_limited", capacity.c.library_id, postgresql_where=capacity.c.uses.is_not(None))

# JSON, not JSONB: a snapshot must come back as it went in, to the order of its keys, or a replay may differ.
snapshot = sa.Table(
    "snapshot",
    metadata,
    sa.Column("version", sa.Text, primary_key=True, comment="content hash"),
    sa.Column("library_version", sa.Text, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    _created_at(),
)

plan = sa.Table(
    "plan",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("snapshot_version", sa.ForeignKey("snapshot.version"), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False, server_default="", comment="of the fleet"),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("usd_per_hour", sa.Double, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Column("summary", sa.JSON, comment="what lists show; null: in the body"),
    _created_at(),
)
# Pages go by age, newest first, of all fleets or of one.
sa.Index("ix_plan_created_at_id", plan.c.created_at, plan.c.id)
sa.Index("ix_plan_name_created_at_id", plan.c.name, plan.c.created_at, plan.c.id)
