"""Sessions of browsers in PostgreSQL: a cookie that stands for an API token, and ends with it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from control.access.api_token import ApiToken
from control.access.role import Role
from control.access.secret import Secret, new_secret
from control.db.access_tables import api_token
from control.db.api_tables import browser_session
from control.db.database import Database


@dataclass(frozen=True, slots=True)
class PostgresSessions:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def create(self, token: ApiToken, now: datetime, lifetime: timedelta) -> tuple[Secret, datetime]:
        """Make a session; return the cookie's secret, and when it ends: with the token at the latest."""
        secret, expires_at = new_secret(), now + lifetime
        if token.expires_at is not None:
            expires_at = min(expires_at, token.expires_at)
        row = {"digest": secret.digest(), "token_id": token.id, "created_at": now, "expires_at": expires_at}
        self.database.write(insert(browser_session).values(row))
        return secret, expires_at

    def token_of(self, secret: Secret, now: datetime) -> tuple[ApiToken, datetime] | None:
        """The token that a cookie stands for, and when the session ends; None: no session, or its token is worth
        nothing any more."""
        query = select(api_token, browser_session.c.expires_at.label("ends_at")).join_from(browser_session, api_token)
        query = query.where(browser_session.c.digest == secret.digest(), browser_session.c.expires_at > now)
        row = self.database.read_one(query)
        if row is None:
            return None
        token = ApiToken(row.id, row.name, Role(row.role), row.created_at, row.expires_at, row.revoked_at)
        return (token, row.ends_at) if token.works(now) else None

    def end(self, secret: Secret) -> None:
        """End a session; again does no harm."""
        self.database.write(delete(browser_session).where(browser_session.c.digest == secret.digest()))

    def drop_expired(self, now: datetime) -> None:
        self.database.write(delete(browser_session).where(browser_session.c.expires_at < now))
