"""The tables, as SQLAlchemy knows them. `migrations/versions` makes them; a test holds the two equal."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _created_at() -> Column[object]:
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now())


library = Table(
    "library",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("fingerprint", Text, nullable=False, unique=True, comment="of the source: what its templates depend on"),
    Column("version", Text, unique=True, comment="content hash; null while it is being built"),
    Column("cost_model_fingerprint", Text, nullable=False),
    Column("parameters", JSON, nullable=False, comment="of the build, such as n_max and rho"),
    Column("configs", JSON, nullable=False, comment="node configuration ids: the positions of template.nodes"),
    Column("classes", JSON, nullable=False, comment="work classes: capacity.class indexes them"),
    _created_at(),
    Column("finished_at", DateTime(timezone=True)),
)

library_unit = Table(
    "library_unit",
    metadata,
    Column("library_id", ForeignKey("library.id", ondelete="CASCADE"), primary_key=True),
    Column("position", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("digest", LargeBinary, comment="of the unit's templates; null: not built yet"),
    Column("sets", BigInteger, nullable=False, server_default="0"),
    Column("templates", BigInteger, nullable=False, server_default="0"),
    Column("kept", BigInteger, nullable=False, server_default="0"),
    Column("seconds", Double, nullable=False, server_default="0"),
    UniqueConstraint("library_id", "name"),
)

library_part = Table(
    "library_part",
    metadata,
    Column("library_id", ForeignKey("library.id", ondelete="CASCADE"), primary_key=True),
    Column("position", SmallInteger, primary_key=True, autoincrement=False),
    Column("part_id", ForeignKey("library.id"), nullable=False, comment="whose templates it has; it has no own"),
)

# The two bulk tables have no foreign keys: checked row by row, they would cost more than the load itself. Their only
# writer puts them and the unit's row down in one transaction.
template = Table(
    "template",
    metadata,
    Column("library_id", Integer, primary_key=True, autoincrement=False),
    Column("id", Uuid, primary_key=True, comment="content hash, 128 bits"),
    Column("unit", SmallInteger, nullable=False),
    Column("ordinal", Integer, nullable=False, comment="position within its unit"),
    Column("nodes", LargeBinary, nullable=False, comment="one byte a configuration: how many nodes"),
    Column("record", LargeBinary, nullable=False, comment="compact placement, for its source to read"),
)

capacity = Table(
    "capacity",
    metadata,
    Column("library_id", Integer, primary_key=True, autoincrement=False),
    Column("unit", SmallInteger, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("point", SmallInteger, primary_key=True, autoincrement=False),
    Column("class", SmallInteger, primary_key=True, autoincrement=False),
    Column("units_per_s", Double, nullable=False),
)

# JSON, not JSONB: a snapshot must come back as it went in, to the order of its keys, or a replay may differ.
snapshot = Table(
    "snapshot",
    metadata,
    Column("version", Text, primary_key=True, comment="content hash"),
    Column("library_version", Text, nullable=False),
    Column("body", JSON, nullable=False),
    _created_at(),
)

plan = Table(
    "plan",
    metadata,
    Column("id", Text, primary_key=True),
    Column("snapshot_version", ForeignKey("snapshot.version"), nullable=False, index=True),
    Column("name", Text, nullable=False, server_default="", comment="of the fleet"),
    Column("policy", Text, nullable=False),
    Column("usd_per_hour", Double, nullable=False),
    Column("body", JSON, nullable=False),
    Column("summary", JSON, comment="what lists show; null: in the body"),
    _created_at(),
)
# Pages go by age, newest first, of all fleets or of one.
Index("ix_plan_created_at_id", plan.c.created_at, plan.c.id)
Index("ix_plan_name_created_at_id", plan.c.name, plan.c.created_at, plan.c.id)
