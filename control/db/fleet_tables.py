"""The tables of what runs: instances, their nodes, what was done to them and why, and what was asked of clouds."""

import sqlalchemy as sa

from control.db.tables import metadata

instance = sa.Table(
    "instance",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("fleet", sa.Text, nullable=False, index=True),
    sa.Column(
        "plan_id", sa.Text, nullable=False, comment="that asked for it; plans may be thrown away before instances"
    ),
    sa.Column("template_id", sa.Text, nullable=False),
    sa.Column("template", sa.JSON, nullable=False, comment="what it runs, though its library be replaced"),
    sa.Column("zone", sa.Text, nullable=False),
    sa.Column("market", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column(
        "version", sa.Integer, nullable=False, comment="+1 a transition; a write names the version it was judged on"
    ),
    sa.Column("state_since", sa.DateTime(timezone=True), nullable=False),
)

# Rows are only ever added. The primary key is the second guard of a transition: two can never both be the third.
instance_event = sa.Table(
    "instance_event",
    metadata,
    sa.Column("instance_id", sa.ForeignKey("instance.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False, comment="of the instance after it"),
    sa.Column("sequence", sa.BigInteger, sa.Identity(always=True), nullable=False, unique=True),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("from_state", sa.Text, nullable=False, comment="empty: it did not exist"),
    sa.Column("to_state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
)

node = sa.Table(
    "node",
    metadata,
    sa.Column("name", sa.Text, primary_key=True, comment="as the cloud knows it; never used again"),
    sa.Column("instance_id", sa.ForeignKey("instance.id"), nullable=False),
    sa.Column("place", sa.SmallInteger, nullable=False, comment="which of the instance's nodes it is"),
    sa.Column("offer", sa.Text, nullable=False, comment="key of the offer it is rented from"),
    sa.Column("cloud", sa.Text, nullable=False),
    sa.Column("provider_id", sa.Text, nullable=False, server_default="", comment="empty: not known to exist"),
    sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True)),
    sa.Column("last_heartbeat", sa.DateTime(timezone=True)),
    sa.Column("load", sa.JSON, comment="what it said of itself last"),
    sa.Column("gone_at", sa.DateTime(timezone=True)),
    sa.Column("gone_because", sa.Text, nullable=False, server_default=""),
    sa.Column(
        "usd_per_hour",
        sa.Numeric,
        comment="of its offer when its intent was recorded; null: launched before prices were",
    ),
    sa.Column(
        "disk_usd_per_hour",
        sa.Numeric,
        nullable=False,
        server_default="0",
        comment="of its disk, beside its offer: as its plan was charged",
    ),
    sa.Column(
        "charged", sa.Boolean, nullable=False, server_default="true", comment="false: refused, nothing was billed"
    ),
    sa.Column(
        "project", sa.Text, nullable=False, server_default="default", comment="of its fleet when it was launched"
    ),
    sa.Column("model", sa.Text, nullable=False, server_default="", comment="of its instance's template"),
)
# One living node a place, whoever else asks at the same time.
sa.Index(
    "uq_node_place_living", node.c.instance_id, node.c.place, unique=True, postgresql_where=sa.text("gone_at IS NULL")
)
sa.Index("ix_node_gone_at", node.c.gone_at)
sa.Index("ix_node_cloud_living", node.c.cloud, postgresql_where=sa.text("gone_at IS NULL"))

# An intent outlives what it is about, and may be about a node that no row explains: no foreign key.
intent = sa.Table(
    "intent",
    metadata,
    sa.Column("key", sa.Text, primary_key=True, comment="of idempotency: kind and node"),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("cloud", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("settled_at", sa.DateTime(timezone=True)),
    sa.Column("outcome", sa.Text, nullable=False, server_default="", comment="what the cloud said last"),
)
sa.Index("ix_intent_open", intent.c.cloud, postgresql_where=sa.text("state = 'open'"))
