"""Create and change projects, and check that one is there."""

from dataclasses import asdict

from control.access.use_limits import NO_LIMITS, UseLimits
from control.actions.context import ActionContext
from control.actions.refusal import WrongFieldError
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.projects import PostgresProjects, Project


def create_project(act: ActionContext, name: str, description: str = "", limits: UseLimits = NO_LIMITS) -> Project:
    """Raises InUseError when there is one of that name."""
    with act.as_one() as one:
        made = PostgresProjects(one.database).create(name, description, act.now, limits)
        one.record("project.created", f"created project {name}{_with(limits)}", name)
        return made


def change_project(act: ActionContext, name: str, version: int, description: str, limits: UseLimits) -> Project:
    """Raises NotStoredError with the nearest name, StaleVersionError."""
    with act.as_one() as one:
        projects = PostgresProjects(one.database)
        before = projects.load(name)
        changed = projects.change(name, version, description, limits, act.now)
        is_new = before.limits != limits
        text = f"project {name} is{_with(limits) or ' without limits'}" if is_new else f"described project {name}"
        one.record("project.changed", text, name)
        return changed


def _with(limits: UseLimits) -> str:
    given = {name.replace("_", " "): limit for name, limit in asdict(limits).items() if limit is not None}
    shown = ", ".join(f"{name} {limit}" for name, limit in given.items())
    return f" limited at each gateway: {shown}" if given else ""


def check_project(database: Database, project: str) -> None:
    """Raises WrongFieldError, with the nearest name, for a project that is not there: costs under a mistyped name would
    count against no budget."""
    try:
        PostgresProjects(database).load(project)
    except NotStoredError as error:
        raise WrongFieldError("project", str(error)) from None
