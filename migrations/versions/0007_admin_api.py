"""Projects, models of people's own, operations, answers to repeat, sessions, baselines of plans"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_VERSION = "+1 a write; a write names the version it was judged on"


def upgrade() -> None:
    op.create_table(
        "project",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, comment=_VERSION),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_project")),
    )
    # Every project that a fleet names, and the one that fleets belong to unless somebody says otherwise.
    op.execute(
        "INSERT INTO project (name, description, version, created_at, updated_at) "
        "SELECT DISTINCT name, '', 1, now(), now() FROM (SELECT 'default' AS name UNION SELECT project FROM fleet) AS p"
    )
    op.create_table(
        "model",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False, comment="config.json of Hugging Face"),
        sa.Column(
            "weights",
            sa.Text(),
            nullable=False,
            comment="package:NAME or path:PATH where nodes find them; empty: not said",
        ),
        sa.Column("version", sa.Integer(), nullable=False, comment=_VERSION),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_model")),
    )
    op.create_table(
        "operation",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("problem", sa.JSON(), nullable=True, comment="why it failed"),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("fleet", sa.Text(), nullable=False, comment="empty: it is about no fleet"),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("lease", sa.Text(), nullable=True, comment="of whoever works on it"),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation")),
    )
    op.create_index("ix_operation_created_at_id", "operation", ["created_at", "id"], unique=False)
    is_open = sa.text("state IN ('queued', 'running')")
    op.create_index("ix_operation_open", "operation", ["created_at"], unique=False, postgresql_where=is_open)
    op.create_table(
        "idempotent_answer",
        sa.Column("caller", sa.Text(), nullable=False, comment="id of the token"),
        sa.Column("key", sa.LargeBinary(), nullable=False, comment="SHA-256 of the Idempotency-Key"),
        sa.Column("request", sa.LargeBinary(), nullable=False, comment="SHA-256 of what was asked"),
        sa.Column(
            "answer",
            sa.LargeBinary(),
            nullable=True,
            comment="encrypted with what only its caller knows; null: on its way",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotent_answer")),
    )
    op.create_index(op.f("ix_idempotent_answer_created_at"), "idempotent_answer", ["created_at"], unique=False)
    op.create_table(
        "browser_session",
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the cookie"),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["api_token.id"], name=op.f("fk_browser_session_token_id")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_browser_session")),
    )
    op.create_index(op.f("ix_browser_session_expires_at"), "browser_session", ["expires_at"], unique=False)
    op.create_index(op.f("ix_browser_session_token_id"), "browser_session", ["token_id"], unique=False)
    op.create_table(
        "plan_baseline",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("baseline", sa.Text(), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("unmet_share", sa.Double(), nullable=False, comment="of all requests"),
        sa.Column("breaks", sa.JSON(), nullable=False, comment="guardrails that it does not keep"),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name=op.f("fk_plan_baseline_plan_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("plan_id", "baseline", name=op.f("pk_plan_baseline")),
    )
    op.add_column("plan", sa.Column("summary", sa.JSON(), nullable=True, comment="what lists show; null: in the body"))
    op.create_index("ix_plan_created_at_id", "plan", ["created_at", "id"], unique=False)
    op.create_index("ix_plan_name_created_at_id", "plan", ["name", "created_at", "id"], unique=False)
    is_living = sa.text("state <> 'terminated'")
    op.create_index("ix_instance_living", "instance", ["id"], unique=False, postgresql_where=is_living)


def downgrade() -> None:
    op.drop_index("ix_instance_living", table_name="instance")
    op.drop_index("ix_plan_name_created_at_id", table_name="plan")
    op.drop_index("ix_plan_created_at_id", table_name="plan")
    op.drop_column("plan", "summary")
    for name in (
        "plan_baseline", "browser_session", "idempotent_answer", "operation", "model", "project",
    ):  # fmt: skip
        op.drop_table(name)
