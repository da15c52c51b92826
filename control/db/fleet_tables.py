"""The tables of what runs: instances, their nodes, what was done to them and why, and what was asked of clouds."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Numeric,
    SmallInteger,
    Table,
    Text,
    text,
)

from control.db.tables import metadata

instance = Table(
    "instance",
    metadata,
    Column("id", Text, primary_key=True),
    Column("fleet", Text, nullable=False, index=True),
    Column("plan_id", Text, nullable=False, comment="that asked for it; plans may be thrown away before instances"),
    Column("template_id", Text, nullable=False),
    Column("template", JSON, nullable=False, comment="what it runs, though its library be replaced"),
    Column("zone", Text, nullable=False),
    Column("market", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("version", Integer, nullable=False, comment="+1 a transition; a write names the version it was judged on"),
    Column("state_since", DateTime(timezone=True), nullable=False),
)

# Rows are only ever added. The primary key is the second guard of a transition: two can never both be the third.
instance_event = Table(
    "instance_event",
    metadata,
    Column("instance_id", ForeignKey("instance.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False, comment="of the instance after it"),
    Column("sequence", BigInteger, Identity(always=True), nullable=False, unique=True),
    Column("event", Text, nullable=False),
    Column("from_state", Text, nullable=False, comment="empty: it did not exist"),
    Column("to_state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
)

node = Table(
    "node",
    metadata,
    Column("name", Text, primary_key=True, comment="as the cloud knows it; never used again"),
    Column("instance_id", ForeignKey("instance.id"), nullable=False),
    Column("place", SmallInteger, nullable=False, comment="which of the instance's nodes it is"),
    Column("offer", Text, nullable=False, comment="key of the offer it is rented from"),
    Column("cloud", Text, nullable=False),
    Column("provider_id", Text, nullable=False, server_default="", comment="empty: not known to exist"),
    Column("requested_at", DateTime(timezone=True), nullable=False),
    Column("created_at", DateTime(timezone=True)),
    Column("last_heartbeat", DateTime(timezone=True)),
    Column("load", JSON, comment="what it said of itself last"),
    Column("gone_at", DateTime(timezone=True)),
    Column("gone_because", Text, nullable=False, server_default=""),
    Column(
        "usd_per_hour", Numeric, comment="of its offer when its intent was recorded; null: launched before prices were"
    ),
    Column("charged", Boolean, nullable=False, server_default="true", comment="false: refused, nothing was billed"),
    Column("project", Text, nullable=False, server_default="default", comment="of its fleet when it was launched"),
    Column("model", Text, nullable=False, server_default="", comment="of its instance's template"),
)
# One living node a place, whoever else asks at the same time.
Index("uq_node_place_living", node.c.instance_id, node.c.place, unique=True, postgresql_where=text("gone_at IS NULL"))
Index("ix_node_gone_at", node.c.gone_at)
Index("ix_node_cloud_living", node.c.cloud, postgresql_where=text("gone_at IS NULL"))

# An intent outlives what it is about, and may be about a node that no row explains: no foreign key.
intent = Table(
    "intent",
    metadata,
    Column("key", Text, primary_key=True, comment="of idempotency: kind and node"),
    Column("kind", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("cloud", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("recorded_at", DateTime(timezone=True), nullable=False),
    Column("attempted_at", DateTime(timezone=True), nullable=False),
    Column("settled_at", DateTime(timezone=True)),
    Column("outcome", Text, nullable=False, server_default="", comment="what the cloud said last"),
)
Index("ix_intent_open", intent.c.cloud, postgresql_where=text("state = 'open'"))
