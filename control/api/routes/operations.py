"""Operations: work that takes longer than a request, asked for by other resources."""

from datetime import datetime
from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from control.api.documented import problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, before, page
from control.api.problem import FieldProblem
from control.api.text import PathId, QueryText
from control.db import operations as stored
from control.db.operations import OPEN, OperationState, PostgresOperations

router = api_router("operations")


class OperationProblem(BaseModel):
    """Reason why an operation failed: a problem document without what belongs to a request."""

    name: str
    detail: str
    errors: list[FieldProblem] = []
    facts: dict[str, Any] = {}


class Operation(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    kind: str
    state: OperationState
    progress: str = Field(description="Current step, for people.")
    result: dict[str, Any] | None = Field(description="Result of its kind; `plan_id` where it made a plan.")
    problem: OperationProblem | None
    fleet: str = Field(description="Empty: it is about no fleet.")
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@router.get("/operations", responses=problems())
def list_operations(
    services: ServicesOf, limit: Limit = 50, cursor: Cursor = None, fleet: QueryText = None, kind: QueryText = None
) -> Page[Operation]:
    """List operations, the newest first."""
    rows = PostgresOperations(services.database).page(limit + 1, before(cursor), fleet, kind)
    return page(rows, limit, Operation.model_validate, lambda row: (row.created_at.isoformat(), row.id))


@router.get("/operations/{operation_id}", responses=problems(404))
def get_operation(operation_id: PathId, response: Response, services: ServicesOf) -> Operation:
    """One operation, with Retry-After while it is under way."""
    found = PostgresOperations(services.database).load(operation_id)
    if found.state in OPEN:
        response.headers["Retry-After"] = "1"
    return Operation.model_validate(found)


@router.post("/operations/{operation_id}:cancel", responses=problems(404))
def cancel_operation(operation_id: PathId, act: ActOf) -> Operation:
    """Stop the work on an operation. One that has ended stays as it is."""
    with act.as_one() as one:
        ended = PostgresOperations(one.database).cancel(operation_id, act.now)
        one.record("operation.cancelled", f"cancelled operation {operation_id}", operation_id, ended.fleet)
    return Operation.model_validate(ended)


def accepted(response: Response, operation: stored.Operation) -> Operation:
    """The document of an answer 202."""
    response.headers["Location"] = f"/api/v1/operations/{operation.id}"
    response.headers["Retry-After"] = "1"
    return Operation.model_validate(operation)
