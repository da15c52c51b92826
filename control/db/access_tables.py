"""The tables of who may speak to the control plane. No secret is in them: only hashes and public keys."""

import sqlalchemy as sa

from control.db.tables import metadata

bootstrap_token = sa.Table(
    "bootstrap_token",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True, comment="SHA-256; the token itself is on its node only"),
    sa.Column("node", sa.ForeignKey("node.name"), nullable=False, index=True),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
)

# A key is revoked by its node being gone: there is no state of its own that could be forgotten.
agent_key = sa.Table(
    "agent_key",
    metadata,
    sa.Column("node", sa.ForeignKey("node.name"), primary_key=True),
    sa.Column("public_key", sa.Text, nullable=False, unique=True, comment="CURVE, Z85"),
    sa.Column("token_digest", sa.LargeBinary, nullable=False, comment="of the bootstrap token it was registered with"),
    sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
)

api_token = sa.Table(
    "api_token",
    metadata,
    sa.Column("id", sa.Text, primary_key=True, comment="the public part of the token"),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False, comment="SHA-256 of the secret part, or HMAC with the pepper"),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    sa.Column("project", sa.Text, nullable=False, server_default="default", comment="whose use it is"),
    sa.Column("requests_per_minute", sa.Integer, comment="at each gateway; null: no limit"),
    sa.Column("tokens_per_minute", sa.Integer, comment="at each gateway; null: no limit"),
    sa.Column(
        "priority",
        sa.Text,
        nullable=False,
        server_default="standard",
        comment="of its holder's requests, at the most: interactive, standard or batch",
    ),
    sa.Column("concurrent_requests", sa.Integer, comment="at each gateway; null: no limit"),
    sa.Column("pepper", sa.Text, nullable=False, server_default="", comment="id of it; empty: none"),
)
