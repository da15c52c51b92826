"""The caller of a request: the holder of an API token, or a browser with a session that stands for one."""

import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from control.access.role import Role
from control.access.secret import Secret
from control.api.problem import ApiError
from control.db.api_tokens import PostgresApiTokens
from control.db.browser_sessions import PostgresSessions
from control.db.database import Database

COOKIE = "medley_session"
CSRF_HEADER = "X-CSRF-Token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Caller:
    token_id: str
    name: str
    role: Role
    project: str
    secret: Secret
    """What it proved itself with."""
    session_ends_at: datetime | None = None
    """None: it sent the token itself."""

    @property
    def actor(self) -> str:
        """Return the caller's name in events."""
        return f"token:{self.token_id}"


def identify(request: Request, database: Database, now: datetime) -> Caller:
    """Raises ApiError 401, and 403 for an unsafe request of a session without its CSRF token."""
    given = request.headers.get("authorization")
    if given is not None:
        scheme, _, text = given.partition(" ")
        token = None
        if scheme.lower() == "bearer":
            secret = Secret(text.strip())
            token = PostgresApiTokens(database).authenticate(secret, now)
        if token is None:
            raise _unknown("the API token is wrong, expired or revoked")
        return Caller(token.id, token.name, token.role, token.project, secret)
    cookie = request.cookies.get(COOKIE)
    if cookie is None:
        raise _unknown("send `Authorization: Bearer TOKEN` (`medley token create`), or sign in at /api/v1/session")
    session = Secret(cookie)
    found = PostgresSessions(database).token_of(session, now)
    if found is None:
        raise _unknown("the session has ended: sign in again")
    if request.method not in SAFE:
        sent = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(sent.encode(), csrf_token(session).encode()):
            raise ApiError(403, "csrf", f"send {CSRF_HEADER} with the csrf_token of GET /api/v1/session")
    token, ends_at = found
    return Caller(token.id, token.name, token.role, token.project, session, ends_at)


def csrf_token(session: Secret) -> str:
    """Follows from the cookie, which scripts cannot read: another site can neither read nor guess it."""
    return hmac.new(session.reveal().encode(), b"medley csrf", "sha256").hexdigest()


def _unknown(detail: str) -> ApiError:
    return ApiError(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="medley"'})


def _of_request(request: Request) -> Caller:
    """`GuardedRoute` has put it there."""
    caller: Caller = request.state.caller
    return caller


CallerOf = Annotated[Caller, Depends(_of_request)]
