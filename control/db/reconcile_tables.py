"""The tables of the reconcile loop: fleets, the plan each is held to, what happened, and who leads."""

import sqlalchemy as sa

from control.db.tables import metadata, version_column

fleet = sa.Table(
    "fleet",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("project", sa.Text, nullable=False, index=True),
    sa.Column("spec", sa.Text, nullable=False, comment="as its owner wrote it"),
    sa.Column(
        "folder", sa.Text, nullable=False, comment="where relative paths of the spec begin; empty: it may name none"
    ),
    sa.Column("mode", sa.Text, nullable=False),
    version_column(),
    sa.Column("ending", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
)

# Apart from `fleet`: the loop writes here, owners there, and neither makes the other's version stale.
fleet_target = sa.Table(
    "fleet_target",
    metadata,
    sa.Column("fleet", sa.ForeignKey("fleet.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("accepted", sa.Text, nullable=False, comment="plan that it is held to; empty: none"),
    sa.Column("accepted_at", sa.DateTime(timezone=True)),
    sa.Column("accepted_by", sa.Text, nullable=False),
    sa.Column("proposed", sa.Text, nullable=False, comment="plan that waits for approval; empty: none"),
    sa.Column("proposed_at", sa.DateTime(timezone=True)),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column(
        "trouble",
        sa.Text,
        nullable=False,
        server_default="",
        comment="why it cannot be planned or run now, as the loop says; empty: it can",
    ),
)

# What measured answers say of certificates. A factor of 1 stays: how it came to it counts for the next one.
correction = sa.Table(
    "correction",
    metadata,
    sa.Column("fleet", sa.ForeignKey("fleet.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("work_class", sa.Text, primary_key=True),
    sa.Column("factor", sa.Double, nullable=False, comment="of the certified capacity"),
    sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("was_given_back", sa.Boolean, nullable=False, comment="the last change was a step towards 1"),
    sa.Column("fell_short_at", sa.Double, comment="share of the capacity used when answers fell short; null: never"),
    sa.Column("relapses", sa.Integer, nullable=False, comment="steps towards 1 that a shortfall followed"),
    sa.Column("cost_model", sa.Text, nullable=False, comment="fingerprint of the step times that it corrects"),
)

event = sa.Table(
    "event",
    metadata,
    sa.Column("sequence", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("actor", sa.Text, nullable=False, comment="who"),
    sa.Column("kind", sa.Text, nullable=False, comment="what"),
    sa.Column("fleet", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False, comment="id of what it is about"),
    sa.Column("text", sa.Text, nullable=False, comment="why"),
    sa.Column("detail", sa.JSON, nullable=False),
    sa.Column("trace", sa.Text, nullable=False),
)
# Pages go by sequence, newest first, within one of these.
sa.Index("ix_event_fleet", event.c.fleet, event.c.sequence)
sa.Index("ix_event_subject", event.c.subject, event.c.sequence)
sa.Index("ix_event_kind", event.c.kind, event.c.sequence)

# No foreign key: that an event was taken out is to be seen.
event_seal = sa.Table(
    "event_seal",
    metadata,
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False, comment="place in the chain"),
    sa.Column("event", sa.BigInteger, nullable=False, unique=True, comment="its sequence"),
    sa.Column("digest", sa.LargeBinary, nullable=False, comment="SHA-256 of the one before it and the event"),
)

# One row: who leads holds an advisory lock; the number tells its effects from those of whoever led before.
leader = sa.Table(
    "leader",
    metadata,
    sa.Column(
        "id", sa.SmallInteger, sa.CheckConstraint("id = 1", name="one_row"), primary_key=True, autoincrement=False
    ),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
)

# One row. It goes with a backup, so that a restored control plane knows its nodes by their tag.
installation = sa.Table(
    "installation",
    metadata,
    sa.Column(
        "id", sa.SmallInteger, sa.CheckConstraint("id = 1", name="one_row"), primary_key=True, autoincrement=False
    ),
    sa.Column("owner", sa.Text, nullable=False, comment="value of the tag medley-owner"),
)
