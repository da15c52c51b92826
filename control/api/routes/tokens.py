"""API tokens: for people, programs, and clients of the gateway."""

from datetime import datetime, timedelta

from fastapi import Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from control.access.api_token import ApiToken
from control.access.role import Role
from control.access.use_limits import MAX_LIMIT, UseLimits
from control.actions import tokens
from control.api.documented import needs, problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, before, page
from control.api.text import Line, PathId
from control.db.api_tokens import PostgresApiTokens
from control.given_name import DEFAULT_PROJECT, NAME_PATTERN
from policies.priority import Priority

router = api_router("tokens")


class NewToken(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Line = Field(min_length=1, description="Name of its user, for people.")
    role: Role
    expires_at: AwareDatetime | None = Field(default=None, description="null: never.")
    project: str = Field(default=DEFAULT_PROJECT, pattern=NAME_PATTERN, description="Project that pays for its use.")
    requests_per_minute: int | None = Field(default=None, ge=1, le=MAX_LIMIT, description="Limit at each gateway.")
    tokens_per_minute: int | None = Field(
        default=None, ge=1, le=MAX_LIMIT, description="Limit of prompts and answers, at each gateway."
    )
    concurrent_requests: int | None = Field(
        default=None, ge=1, le=MAX_LIMIT, description="Requests that are open at a gateway at the same time."
    )
    priority: Priority = Field(
        default=Priority.STANDARD,
        description="Of its user's requests, which may ask for a lower one (`service_tier`): higher ones go first.",
    )


class Token(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    role: Role
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    project: str
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrent_requests: int | None
    priority: Priority


class TokenWithSecret(Token):
    token: str = Field(description="What its holder sends. It is shown now and never again.")


class Rotation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    grace_hours: float = Field(
        default=24.0, ge=0, le=tokens.MOST_GRACE.days * 24, description="Hours in which the old token works on."
    )


@router.get("/tokens", responses=problems(), openapi_extra=needs(Role.ADMIN))
def list_tokens(services: ServicesOf, limit: Limit = 50, cursor: Cursor = None) -> Page[Token]:
    """List all tokens, revoked and expired ones too, the newest first."""
    rows = PostgresApiTokens(services.database).page(limit + 1, before(cursor))
    return page(rows, limit, Token.model_validate, _key)


@router.post("/tokens", status_code=201, responses=problems(body=True), openapi_extra=needs(Role.ADMIN))
def create_token(body: NewToken, act: ActOf, response: Response) -> TokenWithSecret:
    """Make a token. The database keeps its hash only."""
    limits = UseLimits(body.requests_per_minute, body.tokens_per_minute, body.concurrent_requests)
    use = (body.project, limits, body.priority)
    made, secret = tokens.create_token(act, body.name, body.role, body.expires_at, *use)
    response.headers["Location"] = f"/api/v1/tokens/{made.id}"
    return TokenWithSecret(**Token.model_validate(made).model_dump(), token=secret.reveal())


@router.post(
    "/tokens/{token_id}:rotate",
    status_code=201,
    responses=problems(404, 409, body=True),
    openapi_extra=needs(Role.ADMIN),
)
def rotate_token(token_id: PathId, body: Rotation, act: ActOf, response: Response) -> TokenWithSecret:
    """Make a token in place of another, with the same name, role, project and limits; both work for a while."""
    made, secret = tokens.rotate_token(act, token_id, timedelta(hours=body.grace_hours))
    response.headers["Location"] = f"/api/v1/tokens/{made.id}"
    return TokenWithSecret(**Token.model_validate(made).model_dump(), token=secret.reveal())


@router.get("/tokens/{token_id}", responses=problems(404), openapi_extra=needs(Role.ADMIN))
def get_token(token_id: PathId, services: ServicesOf) -> Token:
    return Token.model_validate(PostgresApiTokens(services.database).load(token_id))


@router.delete("/tokens/{token_id}", status_code=204, responses=problems(404), openapi_extra=needs(Role.ADMIN))
def revoke_token(token_id: PathId, act: ActOf) -> None:
    """End a token, and each session that began with it. Again: no harm."""
    tokens.revoke_token(act, token_id)


def _key(token: ApiToken) -> tuple[str, str]:
    return token.created_at.isoformat(), token.id
