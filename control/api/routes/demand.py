"""Demand: the load that gateways metered, requests that wait, and overrides of the forecast."""

import math
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from control.actions import override_demand
from control.api.documented import problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.text import Line, PathName
from control.db.demand import PostgresDemand
from control.db.demand_overrides import PostgresDemandOverrides
from control.db.fleets import PostgresFleets
from policies.demand_history import DemandHistory
from templates_lib.values.work import Unit

router = api_router("demand")
Hours = Annotated[float, Query(gt=0, le=168, allow_inf_nan=False, description="How far back.")]


class Override(BaseModel):
    model_config = ConfigDict(from_attributes=True)

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
    reason: Line = Field(min_length=1, description="Reason, for people.")


class Work(BaseModel):
    unit: Unit
    units_per_s: list[float]


class Offered(BaseModel):
    """Demand of one request type, in equal steps, the oldest first."""

    begins_at: datetime
    step_s: float
    requests_per_s: list[float]
    prompt_tokens_per_s: list[float]
    output_tokens_per_s: list[float]
    work: dict[str, Work] = Field(description="By work class.")


class Demand(BaseModel):
    offered: dict[str, Offered] = Field(description="By `app/request_type`, what was served and what was refused.")
    waiting: dict[str, int] = Field(description="By app: requests that gateways hold because nothing serves them.")
    overrides: list[Override]


@router.get("/fleets/{fleet}/demand", responses=problems(404))
def get_demand(fleet: PathName, services: ServicesOf, hours: Hours = 24.0) -> Demand:
    """The demand that gateways metered. The step grows with the span."""
    PostgresFleets(services.database).load(fleet)
    now, stored = services.clock(), PostgresDemand(services.database)
    step_s = 60 if hours <= 2 else 300 if hours <= 24 else 3600
    histories = stored.histories(fleet, now, timedelta(hours=math.ceil(hours)), step_s)
    overrides = PostgresDemandOverrides(services.database).working(fleet, now)
    return Demand(
        offered={name: _offered(history) for name, history in histories.items()},
        waiting=stored.waiting(fleet, now),
        overrides=[Override.model_validate(each) for each in overrides.values()],
    )


@router.put("/fleets/{fleet}/demand/{model}/override", responses=problems(404, body=True))
def put_override(fleet: PathName, model: PathName, body: NewOverride, act: ActOf) -> Override:
    """Plan for this rate instead of the forecast, until it expires. In place of an earlier one."""
    made = override_demand.override_demand(act, fleet, model, body.requests_per_s, body.expires_at, body.reason)
    return Override.model_validate(made)


@router.delete("/fleets/{fleet}/demand/{model}/override", status_code=204, responses=problems(404))
def delete_override(fleet: PathName, model: PathName, act: ActOf) -> None:
    """Plan for the forecast again."""
    override_demand.end_override(act, fleet, model)


def _offered(history: DemandHistory) -> Offered:
    steps = len(history.requests_per_s)
    return Offered(
        begins_at=datetime.fromtimestamp(history.end_s - steps * history.step_s, UTC),
        step_s=history.step_s,
        requests_per_s=history.requests_per_s.tolist(),
        prompt_tokens_per_s=history.of_unit(Unit.PROMPT_TOKEN).tolist(),
        output_tokens_per_s=history.of_unit(Unit.OUTPUT_TOKEN).tolist(),
        work={name: Work(unit=unit, units_per_s=of.tolist()) for (name, unit), of in history.units_per_s.items()},
    )
