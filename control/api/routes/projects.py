"""Projects: what fleets, keys and budgets belong to."""

from datetime import datetime

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from control.access.role import Role
from control.access.use_limits import MAX_LIMIT, UseLimits
from control.actions import projects
from control.api.documented import needs, problems
from control.api.etag import Version, tagged
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, after, page
from control.api.text import Line, NewName, PathName
from control.db import projects as stored

router = api_router("projects")


class ProjectLimits(BaseModel):
    """Of all tokens of the project together, at each gateway; null: no limit."""

    model_config = ConfigDict(from_attributes=True, extra="forbid")

    requests_per_minute: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    tokens_per_minute: int | None = Field(default=None, ge=1, le=MAX_LIMIT, description="Of prompts and answers.")
    concurrent_requests: int | None = Field(default=None, ge=1, le=MAX_LIMIT, description="Open at the same time.")


class NewProject(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: NewName
    description: Line = ""
    limits: ProjectLimits = ProjectLimits()


class ProjectChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    description: Line
    limits: ProjectLimits | None = Field(default=None, description="null: they stay as they are.")


class Project(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    name: str
    description: str
    fleets: int
    version: int
    created_at: datetime
    updated_at: datetime
    limits: ProjectLimits


@router.get("/projects", responses=problems())
def list_projects(services: ServicesOf, limit: Limit = 50, cursor: Cursor = None) -> Page[Project]:
    """List projects by name."""
    (last,) = after(cursor, str) or ("",)
    rows = stored.PostgresProjects(services.database).page(limit + 1, str(last))
    return page(rows, limit, Project.model_validate, lambda row: (row.name,))


@router.post("/projects", status_code=201, responses=problems(409, body=True), openapi_extra=needs(Role.ADMIN))
def create_project(body: NewProject, act: ActOf, response: Response) -> Project:
    made = projects.create_project(act, body.name, body.description, UseLimits(**body.limits.model_dump()))
    response.headers["Location"] = f"/api/v1/projects/{made.name}"
    tagged(response, made.version)
    return Project.model_validate(made)


@router.get("/projects/{project}", responses=problems(404))
def get_project(project: PathName, response: Response, services: ServicesOf) -> Project:
    found = stored.PostgresProjects(services.database).load(project)
    tagged(response, found.version)
    return Project.model_validate(found)


@router.put("/projects/{project}", responses=problems(404, 412, 428, body=True), openapi_extra=needs(Role.ADMIN))
def change_project(project: PathName, body: ProjectChange, version: Version, act: ActOf, response: Response) -> Project:
    with act.as_one() as one:
        before = stored.PostgresProjects(one.database).load(project)
        limits = before.limits if body.limits is None else UseLimits(**body.limits.model_dump())
        changed = projects.change_project(one, project, version, body.description, limits)
    tagged(response, changed.version)
    return Project.model_validate(changed)


@router.delete(
    "/projects/{project}", status_code=204, responses=problems(404, 409, 412, 428), openapi_extra=needs(Role.ADMIN)
)
def delete_project(project: PathName, version: Version, act: ActOf) -> None:
    """Refused with 409 while it has fleets."""
    with act.as_one() as one:
        stored.PostgresProjects(one.database).remove(project, version)
        one.record("project.removed", f"removed project {project}", project)
