"""A browser signs in with a token and gets a cookie that scripts cannot read."""

from datetime import datetime

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from control.access.api_token import ApiToken
from control.access.role import Role
from control.access.secret import Secret
from control.actions.context import ActionContext
from control.api.caller import COOKIE, CallerOf, csrf_token
from control.api.documented import needs, problems
from control.api.guarded_route import PREFIX, ServicesOf, api_router
from control.api.problem import ApiError
from control.db.api_tokens import PostgresApiTokens
from control.db.browser_sessions import PostgresSessions

open_router = APIRouter(prefix=PREFIX, tags=["session"])
"""Who signs in is not known yet."""
router = api_router("session")


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=200, description="The text that `medley token create` printed.")


class Session(BaseModel):
    token_id: str
    name: str = Field(description="Name of the token.")
    role: Role
    expires_at: datetime | None = Field(description="End of the session; null: the token was sent itself.")
    csrf_token: str = Field(description="Value of the X-CSRF-Token header for unsafe requests; empty without a cookie.")


@open_router.post("/session", status_code=201, responses=problems(body=True))
def sign_in(body: SignIn, request: Request, response: Response, services: ServicesOf) -> Session:
    """Start a session. The cookie is HttpOnly and SameSite=Strict; it ends with the token."""
    now = services.clock()
    token = PostgresApiTokens(services.database).authenticate(Secret(body.token), now)
    if token is None:
        raise ApiError(401, "unauthorized", "the API token is wrong, expired or revoked")
    if not token.role.covers(Role.VIEWER):
        detail = f"{token.name!r} has role {token.role}: it may use gateways, and see nothing here"
        raise ApiError(403, "forbidden", detail, facts={"needs": Role.VIEWER, "role": token.role})
    with services.database.as_one() as database:
        secret, ends_at = PostgresSessions(database).create(token, now, services.settings.session)
        ActionContext(database, now, f"token:{token.id}", token.name).record("session.started", "signed in", token.id)
    response.set_cookie(
        COOKIE,
        secret.reveal(),
        max_age=int((ends_at - now).total_seconds()),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return _session(token, secret, ends_at)


@router.get("/session", responses=problems())
def who_am_i(caller: CallerOf) -> Session:
    """Show who calls, and what the caller may do."""
    csrf = csrf_token(caller.secret) if caller.session_ends_at is not None else ""
    return Session(
        token_id=caller.token_id, name=caller.name, role=caller.role, expires_at=caller.session_ends_at, csrf_token=csrf
    )


@router.delete("/session", status_code=204, responses=problems(), openapi_extra=needs(Role.VIEWER))
def sign_out(caller: CallerOf, response: Response, services: ServicesOf) -> None:
    """End the session of this browser."""
    if caller.session_ends_at is not None:
        PostgresSessions(services.database).end(caller.secret)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def _session(token: ApiToken, secret: Secret, ends_at: datetime) -> Session:
    return Session(
        token_id=token.id, name=token.name, role=token.role, expires_at=ends_at, csrf_token=csrf_token(secret)
    )
