"""Runs of workflows: their state, their calls, and what ends them or has them go on."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from control.actions import workflows
from control.api.documented import problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, before, not_ours, page
from control.api.text import PathId, QueryText, Readable
from control.db.runs import MOST_EMITS, PostgresRuns
from control.runs.record import CallRecord, RunRecord
from control.runs.run_state import RunState
from control.runs.shown import emitted, plain, shown_call, shown_run

router = api_router("runs")
PATH = r"[0-9]{1,9}(\.[0-9]{1,9}){0,60}"
CallPath = Annotated[str, StringConstraints(pattern=r"^[0-9.]{1,200}$")]
MOST_RESOLVED = 1000


class Run(BaseModel):
    id: str
    project: str
    workflow: str
    version: str
    state: RunState
    reason: str = Field(description="Why it ended other than done; empty: it did not.")
    arguments: dict[str, Any]
    durable: bool
    usd: float = Field(description="What its calls of models cost, by the price of their tokens then.")
    max_usd: float | None
    created_at: datetime
    created_by: str
    deadline_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    wake_at: datetime | None = Field(description="When a waiting run goes on; null: when a signal comes.")
    holder: str = Field(description="Orchestrator that has it, or had it last.")


class RunWithAnswer(Run):
    answer: Any = Field(description="What it returned; null: nothing, or nothing yet.")
    emitted: list[Any] = Field(
        description=f"What it has emitted, in the order in which it came, the first {MOST_EMITS}."
    )


class Call(BaseModel):
    path: str = Field(description="Where in the run it was made.")
    kind: str
    target: str
    takes: list[str] = Field(description="Calls whose results it takes.")
    effects: str
    state: str
    reason: str
    caught: bool = Field(description="It failed, and the code of a run that failed otherwise went on without it.")
    result: Any = Field(description="null: none, or too large to be shown.")
    usd: float
    made_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    due_at: datetime | None


class Resumption(BaseModel):
    model_config = ConfigDict(extra="forbid")

    again: list[CallPath] = Field(
        default=[],
        max_length=MOST_RESOLVED,
        description="Uncertain calls that are started once more, and others that failed and the code went on without.",
    )
    done: dict[CallPath, Any] = Field(
        default={}, max_length=MOST_RESOLVED, description="Uncertain calls that were done, and what they gave."
    )
    max_usd: float | None = Field(default=None, gt=0, le=1e9, description="Budget from now on.")


class NewSignal(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Readable] = Field(min_length=1, max_length=200)
    value: Any = None


@router.get("/runs", responses=problems())
def list_runs(
    services: ServicesOf,
    limit: Limit = 50,
    cursor: Cursor = None,
    project: QueryText = None,
    workflow: QueryText = None,
    state: RunState | None = None,
) -> Page[Run]:
    """List runs, the newest first."""
    rows = PostgresRuns(services.database).page(limit + 1, project, workflow, state, before(cursor))
    return page(rows, limit, _shown, lambda row: (row.created_at.isoformat(), row.id))


@router.get("/runs/{run}", responses=problems(404))
def get_run(run: PathId, services: ServicesOf) -> RunWithAnswer:
    runs = PostgresRuns(services.database)
    found, answer = runs.load(run), runs.answer(run)
    shown = shown_run(found) | {"answer": None if answer is None else plain(answer)}
    return RunWithAnswer.model_validate(shown | {"emitted": emitted(runs.emits(run))})


@router.get("/runs/{run}/calls", responses=problems(404))
def list_calls(run: PathId, services: ServicesOf, limit: Limit = 50, cursor: Cursor = None) -> Page[Call]:
    """List the calls of a run, in the order in which they were made."""
    last = before(cursor)
    if last is not None and not re.fullmatch(PATH, last[1]):
        raise not_ours()
    calls = PostgresRuns(services.database).calls(run, limit + 1, last)
    return page(calls, limit, _shown_call, lambda each: (each.made_at.isoformat(), each.call.path))


@router.post("/runs/{run}:cancel", responses=problems(404))
def cancel_run(run: PathId, act: ActOf) -> Run:
    """End a run. One that has ended stays as it is."""
    return _shown(workflows.cancel_run(act, run))


@router.post("/runs/{run}:resume", responses=problems(404, 409, body=True))
def resume_run(run: PathId, body: Resumption, act: ActOf) -> Run:
    """Have a run that failed go on. Of each call of which nobody knows what became of it, it is to be said."""
    resolved: dict[str, bytes | None] = dict.fromkeys(body.again)
    for path, value in body.done.items():
        resolved[path] = workflows.stored_value("done", value)
    return _shown(workflows.resume_run(act, run, resolved, body.max_usd))


@router.post("/runs/{run}/signals", status_code=204, responses=problems(404, 409, body=True))
def send_signal(run: PathId, body: NewSignal, act: ActOf) -> None:
    """Send a signal to a run. Signals of one name are taken in the order in which they are sent."""
    workflows.send_signal(act, run, body.name, body.value)


def _shown_call(call: CallRecord) -> Call:
    return Call.model_validate(shown_call(call))


def _shown(run: RunRecord) -> Run:
    return Run.model_validate(shown_run(run))
