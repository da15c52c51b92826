"""The tables of the reconcile loop: fleets, the plan each is held to, what happened, and who leads."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
)

from control.db.tables import metadata

fleet = Table(
    "fleet",
    metadata,
    Column("name", Text, primary_key=True),
    Column("project", Text, nullable=False, index=True),
    Column("spec", Text, nullable=False, comment="as its owner wrote it"),
    Column("folder", Text, nullable=False, comment="where relative paths of the spec begin; empty: it may name none"),
    Column("mode", Text, nullable=False),
    Column("version", Integer, nullable=False, comment="+1 a write; a write names the version it was judged on"),
    Column("ending", Boolean, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
)

# Apart from `fleet`: the loop writes here, owners there, and neither makes the other's version stale.
fleet_target = Table(
    "fleet_target",
    metadata,
    Column("fleet", ForeignKey("fleet.name", ondelete="CASCADE"), primary_key=True),
    Column("accepted", Text, nullable=False, comment="plan that it is held to; empty: none"),
    Column("accepted_at", DateTime(timezone=True)),
    Column("accepted_by", Text, nullable=False),
    Column("proposed", Text, nullable=False, comment="plan that waits for approval; empty: none"),
    Column("proposed_at", DateTime(timezone=True)),
    Column("version", Integer, nullable=False),
    Column(
        "trouble",
        Text,
        nullable=False,
        server_default="",
        comment="why it cannot be planned or run now, as the loop says; empty: it can",
    ),
)

event = Table(
    "event",
    metadata,
    Column("sequence", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("actor", Text, nullable=False, comment="who"),
    Column("kind", Text, nullable=False, comment="what"),
    Column("fleet", Text, nullable=False),
    Column("subject", Text, nullable=False, comment="id of what it is about"),
    Column("text", Text, nullable=False, comment="why"),
    Column("detail", JSON, nullable=False),
    Column("trace", Text, nullable=False),
)
# Pages go by sequence, newest first, within one of these.
Index("ix_event_fleet", event.c.fleet, event.c.sequence)
Index("ix_event_subject", event.c.subject, event.c.sequence)
Index("ix_event_kind", event.c.kind, event.c.sequence)

# One row: who leads holds an advisory lock; the number tells its effects from those of whoever led before.
leader = Table(
    "leader",
    metadata,
    Column("id", SmallInteger, CheckConstraint("id = 1", name="one_row"), primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False),
)

# One row. It goes with a backup, so that a restored control plane knows its nodes by their tag.
installation = Table(
    "installation",
    metadata,
    Column("id", SmallInteger, CheckConstraint("id = 1", name="one_row"), primary_key=True, autoincrement=False),
    Column("owner", Text, nullable=False, comment="value of the tag medley-owner"),
)
