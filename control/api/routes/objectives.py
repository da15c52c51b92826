"""What the fleet of a plan costs under other objectives."""

from datetime import datetime
from typing import Annotated

import msgspec
from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from control.actions.decide_plan import DRAFT
from control.api.documented import problems
from control.api.fleet_document import document_of
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.ids import PlanId
from control.api.problem import ApiError, field_problem
from control.api.routes.operations import Operation, accepted
from control.api.text import QueryText
from control.api.what_if import Word
from control.api.work.requests import ObjectivesRequest
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.operations import DONE, OPEN, PostgresOperations
from control.db.plan_summary import PostgresPlanList
from control.fleet_file.model_section import served_names
from control.planning.objective_costs import Curve
from control.planning.objectives import MOST_MS, MOST_POINTS, Axis
from templates_lib.values.nearest_name import nearest_name

router = api_router("plans")
KIND = "objectives"
_MOST_OPERATIONS = 100
"""Operations about one plan that are looked at, the newest first."""
_Value = Annotated[float, Field(gt=0, le=MOST_MS, allow_inf_nan=False)]


class CurveOf(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: Word = Field(description="As the fleet calls it.")
    axis: Axis = Field(description="Objective that changes.")
    values: list[_Value] = Field(
        default=[],
        max_length=MOST_POINTS,
        description="Milliseconds, or percent from 50 to 99.9. Empty: from half to twice the objective in force, or "
        "the usual percentiles. The value in force is looked at in any case.",
    )

    @field_validator("values")
    @classmethod
    def _are_objectives(cls, values: list[float], info: ValidationInfo) -> list[float]:
        axis = info.data.get("axis")
        return values if axis is None else sorted(axis.checked(values))


class CurvePoint(BaseModel):
    """The fleet under one value of the objective."""

    model_config = ConfigDict(from_attributes=True)

    value: float
    usd_per_hour: float | None = Field(description="Of the whole fleet; null: no template keeps the objective.")
    unmet_share: float = Field(description="Share of all requests that such a plan does not serve, 0 to 1.")
    is_kept: bool = Field(description="Whether all that is promised was kept in simulation.")
    problem: str = Field(description="Why there is no such plan, for people; empty: there is one.")


class ObjectiveCurve(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    model: str
    axis: Axis
    unit: str = Field(description="`ms` or `%`, of `now` and the values.")
    now: float = Field(description="The objective that the plan was made for.")
    points: list[CurvePoint] = Field(description="The tightest first, that in force included.")
    found_at: datetime | None


class PlanObjectives(BaseModel):
    plan_id: str
    usd_per_hour: float = Field(description="Of the plan.")
    curves: list[ObjectiveCurve] = Field(description="The newest of each model and axis; empty: nobody asked yet.")


@router.post("/plans/{plan}:objectives", status_code=202, responses=problems(404, 409, body=True))
def find_objective_costs(
    plan: PlanId, body: CurveOf, act: ActOf, response: Response, services: ServicesOf
) -> Operation:
    """Begin to plan the plan's fleet under other values of one objective of one model, with the same demand, prices
    and supply. What was asked of the plan before is not planned again: the answer is the operation that did it, or
    does."""
    with act.database.as_one() as database:
        fleet = PostgresPlanList(database).of(plan).fleet
        _check_model(database, plan, fleet, body.model)
        request = ObjectivesRequest(plan, body.model, body.axis, tuple(body.values))
        operations = PostgresOperations(database)
        asked = operations.of_plan(KIND, plan, fleet, (*OPEN, *DONE), _MOST_OPERATIONS)
        same = (each for each in asked if msgspec.convert(each.request, ObjectivesRequest) == request)
        if (known := next(same, None)) is not None:
            return accepted(response, known)
        content = msgspec.to_builtins(request)
        operation = operations.create(KIND, content, fleet, act.actor, act.trace, act.now)
    services.work_waits()
    return accepted(response, operation)


@router.get("/plans/{plan}/objectives", responses=problems(404))
def get_objective_costs(
    plan: PlanId,
    services: ServicesOf,
    model: QueryText = None,
    axis: Annotated[Axis | None, Query(description="Of this objective alone.")] = None,
) -> PlanObjectives:
    """What the plan's fleet costs against its objectives, as far as `:objectives` has found it."""
    listed = PostgresPlanList(services.database).of(plan)
    done = PostgresOperations(services.database).of_plan(KIND, plan, listed.fleet, most=_MOST_OPERATIONS)
    newest: dict[tuple[str, Axis], ObjectiveCurve] = {}
    for each in done:
        curve = msgspec.convert((each.result or {})["curve"], Curve)
        if model in (None, curve.model) and axis in (None, curve.axis):
            found = ObjectiveCurve.model_validate(msgspec.to_builtins(curve) | {"found_at": each.finished_at})
            newest.setdefault((curve.model, curve.axis), found)
    return PlanObjectives(plan_id=plan, usd_per_hour=listed.usd_per_hour, curves=list(newest.values()))


def _check_model(database: Database, plan: str, fleet: str, model: str) -> None:
    if fleet.endswith(DRAFT):
        raise ApiError(
            409, "conflict", f"plan {plan} is of a draft or a what-if: change the fleet, plan it, and ask about that"
        )
    document = document_of(PostgresFleets(database).load(fleet).spec)
    names = sorted(served_names(document))
    if model not in names:
        detail = f"no model of fleet {fleet!r} is called {model!r}; {nearest_name(model, names)}"
        raise ApiError(422, "invalid", detail, errors=[field_problem(("model",), detail)])
