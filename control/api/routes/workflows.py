"""Workflows: pushed code, and runs that are asked for."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from control.actions import workflows
from control.api.documented import problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Cursor, Items, Limit, Page, after, page
from control.api.routes.runs import Run
from control.api.text import NewName, PathName, QueryText, Readable
from control.db.workflows import PostgresWorkflows, StoredWorkflow
from control.given_name import DEFAULT_PROJECT, NAME_PATTERN
from control.runs.shown import shown_run
from control.tasks.task_source import MOST_BYTES, TaskSource

router = api_router("workflows")
ProjectOf = Annotated[str, Query(pattern=NAME_PATTERN, description="Project that it belongs to.")]


class NewApp(BaseModel):
    model_config = ConfigDict(extra="forbid")

    project: NewName = DEFAULT_PROJECT
    file: NewName = Field(default="app.py", description="Name of the file, for messages.")
    source: Annotated[str, Readable] = Field(
        max_length=MOST_BYTES, description="Python code with workflows, and with the services that they call."
    )


class Parameter(BaseModel):
    name: str
    type: str
    required: bool


class Workflow(BaseModel):
    project: str
    workflow: str
    version: str = Field(description="Of its code: a hash of its content. Runs keep the one they began with.")
    file: str
    pushed_at: datetime
    parameters: list[Parameter]
    gives: str = Field(description="Type of what a run returns.")
    durable: bool
    max_usd: float | None
    max_calls: int
    deadline_s: float | None
    open_runs: int = Field(description="Runs that have not ended.")


class NewRun(BaseModel):
    model_config = ConfigDict(extra="forbid")

    project: NewName = DEFAULT_PROJECT
    arguments: dict[str, Any] = Field(default={}, description="By the name of the parameter.")


@router.get("/workflows", responses=problems())
def list_workflows(
    services: ServicesOf, limit: Limit = 50, cursor: Cursor = None, project: QueryText = None
) -> Page[Workflow]:
    """List workflows by project and name."""
    last = after(cursor, str, str) or ("", "")
    rows = PostgresWorkflows(services.database).page(limit + 1, project, (str(last[0]), str(last[1])))
    return page(rows, limit, _shown, lambda row: (row.project, row.name))


@router.post("/workflows", status_code=201, responses=problems(body=True))
def push_workflows(body: NewApp, act: ActOf, services: ServicesOf) -> Items[Workflow]:
    """Store the workflows of a file, which is loaded once in a process of its own. Runs that there are keep their
    code."""
    source, needs_isolation = TaskSource(body.file, body.source), services.settings.needs_isolation
    pushed = workflows.push_app(act, body.project, source, needs_isolation=needs_isolation)
    return Items(items=[_shown(each) for each in pushed])


@router.get("/workflows/{workflow}", responses=problems(404))
def get_workflow(workflow: PathName, services: ServicesOf, project: ProjectOf = DEFAULT_PROJECT) -> Workflow:
    return _shown(PostgresWorkflows(services.database).load(project, workflow))


@router.post("/workflows/{workflow}/runs", status_code=201, responses=problems(404, body=True))
def start_run(workflow: PathName, body: NewRun, act: ActOf, response: Response) -> Run:
    """Ask for a run: some orchestrator executes it."""
    started = workflows.start_run(act, body.project, workflow, body.arguments)
    response.headers["Location"] = f"/api/v1/runs/{started.id}"
    return Run.model_validate(shown_run(started))


def _shown(found: StoredWorkflow) -> Workflow:
    about = found.about
    return Workflow(
        project=found.project,
        workflow=found.name,
        version=found.version,
        file=found.file,
        pushed_at=found.pushed_at,
        parameters=[Parameter(name=each.name, type=each.type, required=each.required) for each in about.parameters],
        gives=about.gives,
        durable=about.durable,
        max_usd=about.max_usd,
        max_calls=about.max_calls,
        deadline_s=about.deadline_s,
        open_runs=found.open_runs,
    )
