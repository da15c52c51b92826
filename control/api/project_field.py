"""A field that names a project."""

from control.api.problem import ApiError, field_problem
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.projects import PostgresProjects


def check_project(database: Database, project: str) -> None:
    """Raises ApiError 422, with the nearest name, for one that is not there."""
    try:
        PostgresProjects(database).load(project)
    except NotStoredError as error:
        raise ApiError(422, "invalid", str(error), errors=[field_problem(("project",), str(error))]) from None
