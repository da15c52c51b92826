"""Demand: the load that gateways were offered, who waits, and what operators say instead of a forecast."""

import math
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from control.api.caller import CallerOf
from control.api.documented import problems
from control.api.fleet_document import served_names
from control.api.guarded_route import ServicesOf, api_router
from control.api.problem import ApiError, field_problem
from control.api.text import Line, PathName
from control.db.demand import PostgresDemand
from control.db.demand_overrides import Override as StoredOverride
from control.db.demand_overrides import PostgresDemandOverrides
from control.db.errors import NotStoredError
from control.db.fleets import PostgresFleets
from policies.demand_history import DemandHistory
from templates_lib.values.nearest_name import nearest_name

router = api_router("demand")
Hours = Annotated[float, Query(gt=0, le=168, allow_inf_nan=False, description="How far back.")]


class Override(BaseModel):
    model: str
    requests_per_s: float
    made_by: str
    reason: str
    made_at: datetime
    expires_at: datetime


class NewOverride(BaseModel):
    model_config = ConfigDict(extra="forbid")

    requests_per_s: float = Field(ge=0, le=1e9, allow_inf_nan=False, description="0: nothing is to run.")
    expires_at: AwareDatetime
    reason: Line = Field(min_length=1, description="For whoever wonders later.")


class Offered(BaseModel):
    """One request type, in equal steps, the oldest first."""

    begins_at: datetime
    step_s: float
    requests_per_s: list[float]
    prompt_tokens_per_s: list[float]
    output_tokens_per_s: list[float]


class Demand(BaseModel):
    offered: dict[str, Offered] = Field(description="By `app/request_type`, what was served and what was refused.")
    waiting: dict[str, int] = Field(description="By app: requests that gateways hold because nothing serves them.")
    overrides: list[Override]


@router.get("/fleets/{fleet}/demand", responses=problems(404))
def get_demand(fleet: PathName, services: ServicesOf, hours: Hours = 24.0) -> Demand:
    """As gateways metered it. The step grows with the span."""
    PostgresFleets(services.database).load(fleet)
    now, stored = services.clock(), PostgresDemand(services.database)
    step_s = 60 if hours <= 2 else 300 if hours <= 24 else 3600
    histories = stored.histories(fleet, now, timedelta(hours=math.ceil(hours)), step_s)
    overrides = PostgresDemandOverrides(services.database).working(fleet, now)
    return Demand(
        offered={name: _offered(history) for name, history in histories.items()},
        waiting=stored.waiting(fleet, now),
        overrides=[_override(each) for each in overrides.values()],
    )


@router.put("/fleets/{fleet}/demand/{model}/override", responses=problems(404, body=True))
def put_override(
    fleet: PathName, model: PathName, body: NewOverride, caller: CallerOf, services: ServicesOf
) -> Override:
    """Plan for this rate instead of the forecast, until it expires. In place of an earlier one."""
    now = services.clock()
    with services.database.as_one() as database:
        names = served_names(PostgresFleets(database).load(fleet))
        if model not in names:
            raise NotStoredError(f"fleet {fleet!r} has no model {model!r}; {nearest_name(model, names)}")
        new = StoredOverride(model, body.requests_per_s, caller.actor, body.reason, now, body.expires_at)
        try:
            PostgresDemandOverrides(database).set(fleet, new)
        except ValueError as error:
            raise ApiError(422, "invalid", str(error), errors=[field_problem(("expires_at",), str(error))]) from None
        what = f"set the demand of {model} to {body.requests_per_s:g} requests/s: {body.reason}"
        caller.did(database, now, "demand.overridden", what, fleet=fleet, subject=model)
    return _override(new)


@router.delete("/fleets/{fleet}/demand/{model}/override", status_code=204, responses=problems(404))
def delete_override(fleet: PathName, model: PathName, caller: CallerOf, services: ServicesOf) -> None:
    """The forecast counts again."""
    now = services.clock()
    with services.database.as_one() as database:
        PostgresFleets(database).load(fleet)
        if not PostgresDemandOverrides(database).end(fleet, model, now):
            raise NotStoredError(f"the demand of {model!r} in fleet {fleet!r} is not overridden")
        caller.did(database, now, "demand.forecast", f"{model} is forecast again", fleet=fleet, subject=model)


def _offered(history: DemandHistory) -> Offered:
    steps = len(history.requests_per_s)
    return Offered(
        begins_at=datetime.fromtimestamp(history.end_s - steps * history.step_s, UTC),
        step_s=history.step_s,
        requests_per_s=history.requests_per_s.tolist(),
        prompt_tokens_per_s=history.prompt_tokens_per_s.tolist(),
        output_tokens_per_s=history.output_tokens_per_s.tolist(),
    )


def _override(stored: StoredOverride) -> Override:
    return Override(**{name: getattr(stored, name) for name in Override.model_fields})
