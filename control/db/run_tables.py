"""The tables of workflows: code, runs, and the journal of their calls."""

import sqlalchemy as sa

from control.db.tables import metadata

app_version = sa.Table(
    "app_version",
    metadata,
    sa.Column("id", sa.Text, primary_key=True, comment="content hash, with the project"),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("file", sa.Text, nullable=False, comment="its name, for people"),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("pushed_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("pushed_by", sa.Text, nullable=False),
)

workflow = sa.Table(
    "workflow",
    metadata,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("version_id", sa.ForeignKey("app_version.id"), nullable=False, comment="that new runs get"),
    sa.Column("about", sa.JSON, nullable=False, comment="parameters and limits, as its code says"),
    sa.Column("pushed_at", sa.DateTime(timezone=True), nullable=False),
)

workflow_run = sa.Table(
    "workflow_run",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("workflow", sa.Text, nullable=False),
    sa.Column("version_id", sa.ForeignKey("app_version.id"), nullable=False, comment="to its end"),
    sa.Column("arguments", sa.JSON, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("answer", sa.LargeBinary, comment="MessagePack; null: none, or a blob"),
    sa.Column("answer_blob", sa.LargeBinary, comment="digest"),
    sa.Column("durable", sa.Boolean, nullable=False),
    sa.Column("max_calls", sa.Integer, nullable=False),
    sa.Column("max_usd", sa.Double),
    sa.Column("usd", sa.Double, nullable=False, server_default="0"),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("deadline_at", sa.DateTime(timezone=True)),
    sa.Column("started_at", sa.DateTime(timezone=True)),
    sa.Column("ended_at", sa.DateTime(timezone=True)),
    sa.Column("wake_at", sa.DateTime(timezone=True), comment="of a waiting run; null: a signal has to come"),
    sa.Column("holder", sa.Text, nullable=False, server_default="", comment="host and process id, for people"),
    sa.Column("epoch", sa.Integer, nullable=False, server_default="0", comment="fences off former holders"),
    sa.Column("lease_until", sa.DateTime(timezone=True)),
    sa.Column("restarts", sa.Integer, nullable=False, server_default="0", comment="since something came of it"),
    sa.Column("cancel_asked", sa.Boolean, nullable=False, server_default=sa.false()),
)
sa.Index("ix_workflow_run_created_at_id", workflow_run.c.created_at, workflow_run.c.id)
# What orchestrators look for several times a second; runs that have ended are not in it.
sa.Index(
    "ix_workflow_run_open",
    workflow_run.c.created_at,
    postgresql_where=sa.text("state IN ('queued', 'running', 'waiting')"),
)

workflow_call = sa.Table(
    "workflow_call",
    metadata,
    sa.Column("run_id", sa.ForeignKey("workflow_run.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("call", sa.LargeBinary, nullable=False, comment="as the code made it, MessagePack, without `given`"),
    sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("made_after", sa.Integer, nullable=False, comment="outcomes that were on record then"),
    sa.Column("due_at", sa.DateTime(timezone=True)),
    sa.Column("started_at", sa.DateTime(timezone=True), comment="null: it certainly was not started"),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False, comment="place of its outcome in its run; 0: none"),
    sa.Column("value", sa.LargeBinary, comment="MessagePack; null: none, or a blob"),
    sa.Column("blob", sa.LargeBinary, comment="digest"),
    sa.Column("failure", sa.JSON),
    sa.Column("ended_at", sa.DateTime(timezone=True)),
    sa.Column("usd", sa.Double, nullable=False, server_default="0"),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("given", sa.LargeBinary, nullable=False, comment="its arguments"),
    sa.Column(
        "caught",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="the code of the run went on without its result",
    ),
)

workflow_blob = sa.Table(
    "workflow_blob",
    metadata,
    sa.Column("run_id", sa.ForeignKey("workflow_run.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("digest", sa.LargeBinary, primary_key=True, comment="SHA-256"),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

workflow_signal = sa.Table(
    "workflow_signal",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("run_id", sa.ForeignKey("workflow_run.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("value", sa.LargeBinary, nullable=False, comment="MessagePack"),
    sa.Column("sent_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("sent_by", sa.Text, nullable=False),
    sa.Column("taken_by", sa.Text, comment="call path; null: nobody took it yet"),
)
