"""The tables of the admin API: projects, models of people's own, operations, answers to repeat, sessions."""

import sqlalchemy as sa

from control.db.fleet_tables import instance
from control.db.tables import metadata, version_column

project = sa.Table(
    "project",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("description", sa.Text, nullable=False),
    version_column(),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("requests_per_minute", sa.Integer, comment="at each gateway; null: no limit"),
    sa.Column("tokens_per_minute", sa.Integer, comment="at each gateway; null: no limit"),
    sa.Column("concurrent_requests", sa.Integer, comment="at each gateway; null: no limit"),
)

model = sa.Table(
    "model",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("config", sa.JSON, nullable=False, comment="config.json of Hugging Face"),
    sa.Column(
        "weights", sa.Text, nullable=False, comment="package:NAME or path:PATH where nodes find them; empty: not said"
    ),
    version_column(),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
)

# Whoever does the work holds a lease, which it renews: what a dead process left is taken up by another.
operation = sa.Table(
    "operation",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("request", sa.JSON, nullable=False),
    sa.Column("result", sa.JSON),
    sa.Column("problem", sa.JSON, comment="why it failed"),
    sa.Column("progress", sa.Text, nullable=False),
    sa.Column("fleet", sa.Text, nullable=False, comment="empty: it is about no fleet"),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("trace", sa.Text, nullable=False),
    sa.Column("attempts", sa.SmallInteger, nullable=False),
    sa.Column("lease", sa.Text, comment="of whoever works on it"),
    sa.Column("lease_until", sa.DateTime(timezone=True)),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("started_at", sa.DateTime(timezone=True)),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
)
sa.Index("ix_operation_created_at_id", operation.c.created_at, operation.c.id)
sa.Index("ix_operation_open", operation.c.created_at, postgresql_where=sa.text("state IN ('queued', 'running')"))

idempotent_answer = sa.Table(
    "idempotent_answer",
    metadata,
    sa.Column("caller", sa.Text, primary_key=True, comment="id of the token"),
    sa.Column("key", sa.LargeBinary, primary_key=True, comment="SHA-256 of the Idempotency-Key"),
    sa.Column("request", sa.LargeBinary, nullable=False, comment="SHA-256 of what was asked"),
    sa.Column("answer", sa.LargeBinary, comment="encrypted with what only its caller knows; null: on its way"),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, index=True),
)

browser_session = sa.Table(
    "browser_session",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True, comment="SHA-256 of the cookie"),
    sa.Column("token_id", sa.ForeignKey("api_token.id"), nullable=False, index=True),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, index=True),
)

plan_baseline = sa.Table(
    "plan_baseline",
    metadata,
    sa.Column("plan_id", sa.ForeignKey("plan.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("baseline", sa.Text, primary_key=True),
    sa.Column("usd_per_hour", sa.Double, nullable=False),
    sa.Column("unmet_share", sa.Double, nullable=False, comment="of all requests"),
    sa.Column("breaks", sa.JSON, nullable=False, comment="guardrails that it does not keep"),
)

slo_sample = sa.Table(
    "slo_sample",
    metadata,
    sa.Column("gateway", sa.Text, primary_key=True, comment="its URL"),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("begins_at", sa.DateTime(timezone=True), primary_key=True, comment="a minute"),
    sa.Column("ttft", sa.JSON, nullable=False, comment="histogram, seconds"),
    sa.Column("tpot", sa.JSON, nullable=False, comment="histogram, seconds"),
    sa.Column("judged", sa.JSON, comment="answers by work class and objective; null: nobody counted"),
)
sa.Index("ix_slo_sample_model_begins_at", slo_sample.c.model, slo_sample.c.begins_at)

# Lists of instances go by id, mostly of those that live.
sa.Index("ix_instance_living", instance.c.id, postgresql_where=sa.text("state <> 'terminated'"))
