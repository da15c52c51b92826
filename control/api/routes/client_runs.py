"""Runs as the clients of gateways may have them: of workflows of their token's project alone.

Gateways ask this on behalf of a client, with the client's own token."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from control.access.role import Role
from control.actions import workflows
from control.api.caller import CallerOf
from control.api.documented import needs, problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.text import NewName, PathId
from control.db.runs import PostgresRuns
from control.runs.record import RunRecord
from control.runs.run_state import OPEN, RunState
from control.runs.shown import plain

router = api_router("client-runs")
_MOST_BYTES = 1 << 20
"""Bytes of emitted values that one answer has, beside the first."""
_MOST_EMITS = 100
"""Values that are read for it, small ones of up to 64 KiB: gateways ask again at once while there are more."""


class NewClientRun(BaseModel):
    model_config = ConfigDict(extra="forbid")

    workflow: NewName
    arguments: dict[str, Any] = Field(default={}, description="By the name of the parameter.")


class Emitted(BaseModel):
    seq: int
    value: Any


class ClientRun(BaseModel):
    id: str
    workflow: str
    state: RunState
    reason: str = Field(description="Why it ended other than done; empty: it did not.")
    usd: float = Field(description="What its calls of models cost.")
    created_at: datetime
    ended_at: datetime | None
    wake_at: datetime | None = Field(description="When a waiting run goes on; null: when a signal comes.")
    answer: Any = Field(description="What it returned; null: nothing, or nothing yet.")
    emitted: list[Emitted] = Field(description="What it has emitted after `after`, some of it.")
    has_more: bool = Field(description="There is more of it: ask again, after the last `seq`.")


@router.post("/client-runs", status_code=201, responses=problems(404, body=True), openapi_extra=needs(Role.CLIENT))
def start_client_run(body: NewClientRun, act: ActOf, caller: CallerOf) -> ClientRun:
    """Ask for a run of a workflow of the token's project."""
    return _shown(workflows.start_run(act, caller.project, body.workflow, body.arguments))


@router.get("/client-runs/{run}", responses=problems(404), openapi_extra=needs(Role.CLIENT))
def get_client_run(
    run: PathId,
    services: ServicesOf,
    caller: CallerOf,
    after: Annotated[int, Query(ge=0, lt=1 << 31, description="`seq` of what was emitted last.")] = 0,
) -> ClientRun:
    """Look at a run of the token's project; one of another project is none."""
    runs = PostgresRuns(services.database)
    found = runs.load(run, caller.project)  # before what it emitted: a run that has ended emits nothing more
    emits, size, has_more = list[Emitted](), 0, False
    for each in runs.emits(run, after, _MOST_EMITS):
        if emits and (size + len(each.value) > _MOST_BYTES or not each.value):
            has_more = True
            break
        value = each.value or runs.value(run, each.call.path)  # a large one, for the answer that begins with it
        size += len(value)
        emits.append(Emitted(seq=each.seq, value=plain(value)))
    has_more = has_more or len(emits) >= _MOST_EMITS or size > _MOST_BYTES
    answer = None if found.state in OPEN or has_more else runs.answer(run)
    return _shown(found, None if answer is None else plain(answer), emits, has_more=has_more)


def _shown(
    run: RunRecord, answer: Any = None, emits: list[Emitted] | None = None, *, has_more: bool = False
) -> ClientRun:
    return ClientRun(
        id=run.id,
        workflow=run.workflow,
        state=run.state,
        reason=run.reason,
        usd=run.usd,
        created_at=run.created_at,
        ended_at=run.ended_at,
        wake_at=run.wake_at,
        answer=answer,
        emitted=emits or [],
        has_more=has_more,
    )
