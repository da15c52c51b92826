"""The tables of who may speak to the control plane. No secret is in them: only hashes and public keys."""

from sqlalchemy import Column, DateTime, ForeignKey, Integer, LargeBinary, Table, Text

from control.db.tables import metadata

bootstrap_token = Table(
    "bootstrap_token",
    metadata,
    Column("digest", LargeBinary, primary_key=True, comment="SHA-256; the token itself is on its node only"),
    Column("node", ForeignKey("node.name"), nullable=False, index=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

# A key is revoked by its node being gone: there is no state of its own that could be forgotten.
agent_key = Table(
    "agent_key",
    metadata,
    Column("node", ForeignKey("node.name"), primary_key=True),
    Column("public_key", Text, nullable=False, unique=True, comment="CURVE, Z85"),
    Column("token_digest", LargeBinary, nullable=False, comment="of the bootstrap token it was registered with"),
    Column("registered_at", DateTime(timezone=True), nullable=False),
)

api_token = Table(
    "api_token",
    metadata,
    Column("id", Text, primary_key=True, comment="the public part of the token"),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 of the secret part"),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("project", Text, nullable=False, server_default="default", comment="whose use it is"),
    Column("requests_per_minute", Integer, comment="at each gateway; null: no limit"),
    Column("tokens_per_minute", Integer, comment="at each gateway; null: no limit"),
)
