"""Create projects, and check that one is there."""

from control.actions.context import ActionContext
from control.actions.refusal import WrongFieldError
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.projects import PostgresProjects, Project


def create_project(act: ActionContext, name: str, description: str = "") -> Project:
    """Raises InUseError when there is one of that name."""
    with act.as_one() as one:
        made = PostgresProjects(one.database).create(name, description, act.now)
        one.record("project.created", f"created project {name}", name)
        return made


def check_project(database: Database, project: str) -> None:
    """Raises WrongFieldError, with the nearest name, for a project that is not there: costs under a mistyped name would
    count against no budget."""
    try:
        PostgresProjects(database).load(project)
    except NotStoredError as error:
        raise WrongFieldError("project", str(error)) from None
