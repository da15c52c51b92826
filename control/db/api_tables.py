"""The tables of the admin API: projects, models of people's own, operations, answers to repeat, sessions."""

from sqlalchemy import (
    JSON,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)

from control.db.fleet_tables import instance
from control.db.tables import metadata

project = Table(
    "project",
    metadata,
    Column("name", Text, primary_key=True),
    Column("description", Text, nullable=False),
    Column("version", Integer, nullable=False, comment="+1 a write; a write names the version it was judged on"),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
)

model = Table(
    "model",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSON, nullable=False, comment="config.json of Hugging Face"),
    Column("weights", Text, nullable=False, comment="package:NAME or path:PATH where nodes find them; empty: not said"),
    Column("version", Integer, nullable=False, comment="+1 a write; a write names the version it was judged on"),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
)

# Whoever does the work holds a lease, which it renews: what a dead process left is taken up by another.
operation = Table(
    "operation",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("request", JSON, nullable=False),
    Column("result", JSON),
    Column("problem", JSON, comment="why it failed"),
    Column("progress", Text, nullable=False),
    Column("fleet", Text, nullable=False, comment="empty: it is about no fleet"),
    Column("created_by", Text, nullable=False),
    Column("trace", Text, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    Column("lease", Text, comment="of whoever works on it"),
    Column("lease_until", DateTime(timezone=True)),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("started_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
)
Index("ix_operation_created_at_id", operation.c.created_at, operation.c.id)
Index("ix_operation_open", operation.c.created_at, postgresql_where=text("state IN ('queued', 'running')"))

idempotent_answer = Table(
    "idempotent_answer",
    metadata,
    Column("caller", Text, primary_key=True, comment="id of the token"),
    Column("key", LargeBinary, primary_key=True, comment="SHA-256 of the Idempotency-Key"),
    Column("request", LargeBinary, nullable=False, comment="SHA-256 of what was asked"),
    Column("answer", LargeBinary, comment="encrypted with what only its caller knows; null: on its way"),
    Column("created_at", DateTime(timezone=True), nullable=False, index=True),
)

browser_session = Table(
    "browser_session",
    metadata,
    Column("digest", LargeBinary, primary_key=True, comment="SHA-256 of the cookie"),
    Column("token_id", ForeignKey("api_token.id"), nullable=False, index=True),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False, index=True),
)

plan_baseline = Table(
    "plan_baseline",
    metadata,
    Column("plan_id", ForeignKey("plan.id", ondelete="CASCADE"), primary_key=True),
    Column("baseline", Text, primary_key=True),
    Column("usd_per_hour", Double, nullable=False),
    Column("unmet_share", Double, nullable=False, comment="of all requests"),
    Column("breaks", JSON, nullable=False, comment="guardrails that it does not keep"),
)

slo_sample = Table(
    "slo_sample",
    metadata,
    Column("gateway", Text, primary_key=True, comment="its URL"),
    Column("model", Text, primary_key=True),
    Column("begins_at", DateTime(timezone=True), primary_key=True, comment="a minute"),
    Column("ttft", JSON, nullable=False, comment="histogram, seconds"),
    Column("tpot", JSON, nullable=False, comment="histogram, seconds"),
    Column("judged", JSON, comment="answers by work class and objective; null: nobody counted"),
)
Index("ix_slo_sample_model_begins_at", slo_sample.c.model, slo_sample.c.begins_at)

# Lists of instances go by id, mostly of those that live.
Index("ix_instance_living", instance.c.id, postgresql_where=text("state <> 'terminated'"))
