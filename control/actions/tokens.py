"""Create, rotate and revoke API tokens."""

from datetime import datetime, timedelta

from control.access.api_token import ApiToken
from control.access.pepper import PepperError
from control.access.role import Role
from control.access.secret import Secret
from control.access.use_limits import NO_LIMITS, UseLimits
from control.actions.context import ActionContext
from control.actions.projects import check_project
from control.actions.refusal import NotNowError, WrongFieldError
from control.db.api_tokens import PostgresApiTokens
from control.db.events import PostgresEvents
from control.given_name import DEFAULT_PROJECT
from policies.priority import Priority

_ROTATED = "token.rotated"
MOST_GRACE = timedelta(days=90)
"""Time in which a token that is being replaced may work on."""


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
        except PepperError:
            raise  # no field is wrong
        except ValueError as error:
            raise WrongFieldError("expires_at" if name.strip() else "name", str(error)) from None
        one.record("token.created", f"created token {token.id} ({role}) for {name}", token.id)
        return token, secret


def rotate_token(act: ActionContext, token: str, grace: timedelta) -> tuple[ApiToken, Secret]:
    """Make a token in place of another, with the same name, role, project, limits and length of life; the other ends
    after `grace`, in which both work. Raises NotStoredError, NotNowError for a token that works no more or has been
    replaced, WrongFieldError."""
    with act.as_one() as one:
        tokens = PostgresApiTokens(one.database)
        old = tokens.load(token)
        if not old.works(act.now):
            raise NotNowError(f"token {token} works no more: make another in its place (`medley token create`)")
        # Its end is that of its grace by now, so that the length of its life is known no more.
        if PostgresEvents(one.database).page(1, subject=token, kind=_ROTATED):
            made = f"`medley audit --kind {_ROTATED} --subject {token}` names the one in its place"
            raise NotNowError(f"token {token} was rotated before: {made}; rotate that")
        if not timedelta(0) <= grace <= MOST_GRACE:
            raise WrongFieldError("grace_hours", f"a token works on for 0 to {MOST_GRACE.days * 24} hours")
        life = None if old.expires_at is None else act.now + (old.expires_at - old.created_at)
        new, secret = tokens.create(old.name, old.role, act.now, life, old.project, old.limits, old.priority)
        ends = act.now + grace if old.expires_at is None else min(old.expires_at, act.now + grace)
        if grace:
            tokens.end_at(token, ends)
        else:
            tokens.revoke(token, act.now)
        until = f"ends at {ends.isoformat(timespec='minutes')}" if grace else "is revoked"
        one.record(_ROTATED, f"made token {new.id} for {old.name} in place of {token}, which {until}", token)
        return new, secret


def revoke_token(act: ActionContext, token: str) -> None:
    """End a token, and each session that began with it. Again: no harm. Raises NotStoredError."""
    with act.as_one() as one:
        PostgresApiTokens(one.database).revoke(token, act.now)
        one.record("token.revoked", f"revoked token {token}", token)
