"""API tokens in PostgreSQL: a token is shown once, when it is made; only its hash is kept."""

import os
import secrets
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from control.access.api_token import ApiToken, read, written
from control.access.pepper import Peppers, TokenDigest, last_good_peppers, peppers_of
from control.access.role import Role
from control.access.secret import Secret, new_secret
from control.access.use_limits import NO_LIMITS, UseLimits
from control.db.access_tables import api_token
from control.db.database import Database
from control.db.nearest import not_stored
from control.given_name import DEFAULT_PROJECT
from policies.priority import Priority

_ID_BYTES = 6
_NOBODYS = TokenDigest(bytes(32))
"""No secret has this digest (or SHA-256 is broken): what an unknown id is compared with."""


@dataclass(frozen=True, slots=True)
class PostgresApiTokens:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def create(
        self,
        name: str,
        role: Role,
        now: datetime,
        expires_at: datetime | None = None,
        project: str = DEFAULT_PROJECT,
        limits: UseLimits = NO_LIMITS,
        priority: Priority = Priority.STANDARD,
    ) -> tuple[ApiToken, Secret]:
        """The new token, and the text that its holder sends, which nothing can bring back. ValueError: no name or
        project, or it would have expired already; PepperError: the file of peppers cannot be used now."""
        if not name.strip():
            raise ValueError("a token needs a name, so that people know whose it is")
        if not project.strip():
            raise ValueError("a token needs a project: its use is counted by project")
        if expires_at is not None and expires_at <= now:
            raise ValueError(f"a token that expires at {expires_at.isoformat()} would never work")
        token = ApiToken(
            secrets.token_hex(_ID_BYTES),
            name,
            role,
            now,
            expires_at,
            None,
            project,
            limits.requests_per_minute,
            limits.tokens_per_minute,
            priority,
            limits.concurrent_requests,
        )
        secret = new_secret()
        kept = peppers_of(os.environ).hashed(secret)
        row = {
            "id": token.id,
            "name": name,
            "role": role,
            "created_at": now,
            "expires_at": expires_at,
            "project": project,
            **asdict(limits),
            "priority": priority,
        }
        self.database.write(insert(api_token).values(row | {"digest": kept.digest, "pepper": kept.pepper}))
        return token, written(token.id, secret)

    def authenticate(self, token: Secret, now: datetime) -> ApiToken | None:
        """Return the token; None for one that is wrong, expired or revoked, which a caller may not tell apart.
        Raises PepperError where the token has a pepper and this process could never read the file of them."""
        parts = read(token)
        if parts is None:
            return None
        token_id, secret = parts
        row = self.database.read_one(select(api_token).where(api_token.c.id == token_id))
        stored = _NOBODYS if row is None else TokenDigest(row.digest, row.pepper)
        # A file that cannot be read is no trouble of tokens without a pepper.
        peppers = last_good_peppers(os.environ) if stored.pepper else Peppers()
        right = peppers.fits(secret, stored)
        return _token(row) if row is not None and right and _token(row).works(now) else None

    def clients(self, now: datetime) -> tuple[tuple[ApiToken, TokenDigest], ...]:
        """Tokens that work now, each with what is kept of its secret: what a gateway knows its clients by."""
        rows = self.database.read(select(api_token).order_by(api_token.c.id))
        return tuple((token, TokenDigest(row.digest, row.pepper)) for row in rows if (token := _token(row)).works(now))

    def list(self) -> tuple[ApiToken, ...]:
        """All that were ever made, newest first."""
        rows = self.database.read(select(api_token).order_by(api_token.c.created_at.desc(), api_token.c.id))
        return tuple(_token(row) for row in rows)

    def page(self, limit: int, before: tuple[datetime, str] | None = None) -> tuple[ApiToken, ...]:
        """List tokens, the newest first, those made before (created at, id)."""
        query = select(api_token).order_by(api_token.c.created_at.desc(), api_token.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(tuple_(api_token.c.created_at, api_token.c.id) < before)
        return tuple(_token(row) for row in self.database.read(query))

    def names(self, ids: Collection[str]) -> dict[str, str]:
        """Id → name, of those that are on record."""
        query = select(api_token.c.id, api_token.c.name).where(api_token.c.id.in_(ids))
        return {row.id: row.name for row in self.database.read(query)} if ids else {}

    def load(self, token_id: str) -> ApiToken:
        """Raises NotStoredError with the nearest id."""
        with self.database.transaction() as connection:
            row = connection.execute(select(api_token).where(api_token.c.id == token_id)).one_or_none()
            if row is None:
                raise not_stored("token", token_id, connection.execute(select(api_token.c.id)).scalars().all())
        return _token(row)

    def end_at(self, token_id: str, at: datetime) -> None:
        """Have a token end then, unless it ends before."""
        later = or_(api_token.c.expires_at.is_(None), api_token.c.expires_at > at)
        self.database.write(update(api_token).where(api_token.c.id == token_id, later).values(expires_at=at))

    def revoke(self, token_id: str, now: datetime) -> None:
        """Revoke a token from now on; again does no harm. Raises NotStoredError with the nearest id."""
        revoked = update(api_token).where(api_token.c.id == token_id, api_token.c.revoked_at.is_(None))
        with self.database.transaction() as connection:
            connection.execute(revoked.values(revoked_at=now))
            known = connection.execute(select(api_token.c.id)).scalars().all()
            if token_id not in known:
                raise not_stored("token", token_id, known)


def _token(row: Row[Any]) -> ApiToken:
    rates, priority = (row.requests_per_minute, row.tokens_per_minute), Priority(row.priority)
    use = (row.project, *rates, priority, row.concurrent_requests)
    return ApiToken(row.id, row.name, Role(row.role), row.created_at, row.expires_at, row.revoked_at, *use)
