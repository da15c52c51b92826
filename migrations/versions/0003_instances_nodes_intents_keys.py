"""Instances and their events, nodes, intents, keys of agents, API tokens"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_token",
        sa.Column("id", sa.Text(), nullable=False, comment="the public part of the token"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the secret part"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
    )
    op.create_table(
        "instance",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column(
            "plan_id", sa.Text(), nullable=False, comment="that asked for it; plans may be thrown away before instances"
        ),
        sa.Column("template_id", sa.Text(), nullable=False),
        sa.Column("template", sa.JSON(), nullable=False, comment="what it runs, though its library be replaced"),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column(
            "version",
            sa.Integer(),
            nullable=False,
            comment="+1 a transition; a write names the version it was judged on",
        ),
        sa.Column("state_since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance")),
    )
    op.create_index(op.f("ix_instance_fleet"), "instance", ["fleet"], unique=False)
    op.create_table(
        "intent",
        sa.Column("key", sa.Text(), nullable=False, comment="of idempotency: kind and node"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), server_default="", nullable=False, comment="what the cloud said last"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_intent")),
    )
    op.create_index("ix_intent_open", "intent", ["cloud"], unique=False, postgresql_where=sa.text("state = 'open'"))
    op.create_table(
        "instance_event",
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False, comment="of the instance after it"),
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=False, comment="empty: it did not exist"),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instance.id"], name=op.f("fk_instance_event_instance_id")),
        sa.PrimaryKeyConstraint("instance_id", "version", name=op.f("pk_instance_event")),
        sa.UniqueConstraint("sequence", name=op.f("uq_instance_event_sequence")),
    )
    op.create_table(
        "node",
        sa.Column("name", sa.Text(), nullable=False, comment="as the cloud knows it; never used again"),
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("place", sa.SmallInteger(), nullable=False, comment="which of the instance's nodes it is"),
        sa.Column("offer", sa.Text(), nullable=False, comment="key of the offer it is rented from"),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("provider_id", sa.Text(), server_default="", nullable=False, comment="empty: not known to exist"),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_heartbeat", sa.DateTime(timezone=True), nullable=True),
        sa.Column("gone_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("gone_because", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instance.id"], name=op.f("fk_node_instance_id")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_node")),
    )
    op.create_index(
        "ix_node_cloud_living", "node", ["cloud"], unique=False, postgresql_where=sa.text("gone_at IS NULL")
    )
    op.create_index(
        "uq_node_place_living",
        "node",
        ["instance_id", "place"],
        unique=True,
        postgresql_where=sa.text("gone_at IS NULL"),
    )
    op.create_table(
        "agent_key",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False, comment="CURVE, Z85"),
        sa.Column(
            "token_digest", sa.LargeBinary(), nullable=False, comment="of the bootstrap token it was registered with"
        ),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["node"], ["node.name"], name=op.f("fk_agent_key_node")),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_agent_key")),
        sa.UniqueConstraint("public_key", name=op.f("uq_agent_key_public_key")),
    )
    op.create_table(
        "bootstrap_token",
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256; the token itself is on its node only"),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["node"], ["node.name"], name=op.f("fk_bootstrap_token_node")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_bootstrap_token")),
    )
    op.create_index(op.f("ix_bootstrap_token_node"), "bootstrap_token", ["node"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_bootstrap_token_node"), table_name="bootstrap_token")
    op.drop_table("bootstrap_token")
    op.drop_table("agent_key")
    op.drop_index("uq_node_place_living", table_name="node", postgresql_where=sa.text("gone_at IS NULL"))
    op.drop_index("ix_node_cloud_living", table_name="node", postgresql_where=sa.text("gone_at IS NULL"))
    op.drop_table("node")
    op.drop_table("instance_event")
    op.drop_index("ix_intent_open", table_name="intent", postgresql_where=sa.text("state = 'open'"))
    op.drop_table("intent")
    op.drop_index(op.f("ix_instance_fleet"), table_name="instance")
    op.drop_table("instance")
    op.drop_table("api_token")
