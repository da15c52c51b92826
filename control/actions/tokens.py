"""Create and revoke API tokens."""

from datetime import datetime

from control.access.api_token import ApiToken
from control.access.role import Role
from control.access.secret import Secret
from control.access.use_limits import NO_LIMITS, UseLimits
from control.actions.context import ActionContext
from control.actions.projects import check_project
from control.actions.refusal import WrongFieldError
from control.db.api_tokens import PostgresApiTokens
from control.given_name import DEFAULT_PROJECT
from policies.priority import Priority


def create_token(
    act: ActionContext,
    name: str,
    role: Role,
    expires_at: datetime | None = None,
    project: str = DEFAULT_PROJECT,
    limits: UseLimits = NO_LIMITS,
    priority: Priority = Priority.STANDARD,
) -> tuple[ApiToken, Secret]:
    """The token, and the text that its holder sends, which nothing can bring back. Raises WrongFieldError."""
    with act.as_one() as one:
        check_project(one.database, project)
        use = (project, limits, priority)
        try:
            token, secret = PostgresApiTokens(one.database).create(name, role, act.now, expires_at, *use)
        except ValueError as error:
            raise WrongFieldError("expires_at" if name.strip() else "name", str(error)) from None
        one.record("token.created", f"created token {token.id} ({role}) for {name}", token.id)
        return token, secret


def revoke_token(act: ActionContext, token: str) -> None:
    """End a token, and each session that began with it. Again: no harm. Raises NotStoredError."""
    with act.as_one() as one:
        PostgresApiTokens(one.database).revoke(token, act.now)
        one.record("token.revoked", f"revoked token {token}", token)
