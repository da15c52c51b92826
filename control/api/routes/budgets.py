"""Budgets of fleets and projects: what may be spent, what is, and what a fleet has given up for it."""

from typing import Annotated

from fastapi import Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from control.access.role import Role
from control.actions import budgets
from control.api.documented import needs, problems
from control.api.etag import Version, VersionOrNone, tagged
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Items
from control.api.text import PathName
from control.cost.budgets import BudgetReport
from control.db.budgets import GivenUp, PostgresBudgets, Scope
from control.db.fleets import PostgresFleets

router = api_router("budgets")
Dollars = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class BudgetLimits(BaseModel):
    """Limits, at least one of the first two, which the release before called `usd_per_hour` and `usd_per_month`."""

    model_config = ConfigDict(extra="forbid")

    usd_per_hour_limit: Dollars | None = Field(
        default=None, validation_alias=AliasChoices("usd_per_hour_limit", "usd_per_hour")
    )
    usd_per_month_limit: Dollars | None = Field(
        default=None,
        validation_alias=AliasChoices("usd_per_month_limit", "usd_per_month"),
        description="For a calendar month, UTC.",
    )
    floor_usd_per_hour: float = Field(
        default=0.0, ge=0, le=1e9, allow_inf_nan=False, description="Granted whatever was spent."
    )


@router.get("/budgets", responses=problems())
def list_budgets(services: ServicesOf) -> Items[BudgetReport]:
    """List budgets by scope and name; there is at most one a fleet and one a project."""
    return Items(items=list(budgets.budget_reports(services.database, services.clock())))


@router.get("/budgets/{scope}/{name}", responses=problems(404))
def get_budget(scope: Scope, name: PathName, response: Response, services: ServicesOf) -> BudgetReport:
    found = budgets.budget_report(services.database, services.clock(), scope, name)
    tagged(response, found.version)
    return found


@router.put(
    "/budgets/{scope}/{name}",
    responses=problems(404, 412, 428, body=True) | {201: {"model": BudgetReport, "description": "There was none."}},
    openapi_extra=needs(Role.ADMIN),
)
def put_budget(
    scope: Scope, name: PathName, body: BudgetLimits, version: VersionOrNone, act: ActOf, response: Response
) -> BudgetReport:
    """Make a budget (`If-None-Match: *`) or replace it (`If-Match`)."""
    limits = (body.usd_per_hour_limit, body.usd_per_month_limit, body.floor_usd_per_hour)
    found = budgets.set_budget(act, scope, name, *limits, version)
    tagged(response, found.version)
    response.status_code = 201 if version == 0 else 200
    return found


@router.delete(
    "/budgets/{scope}/{name}", status_code=204, responses=problems(404, 412, 428), openapi_extra=needs(Role.ADMIN)
)
def delete_budget(scope: Scope, name: PathName, version: Version, act: ActOf) -> None:
    """Remove a budget: only the spec's own policy limits what is spent then."""
    budgets.remove_budget(act, scope, name, version)


@router.get("/fleets/{fleet}/given-up", responses=problems(404))
def get_given_up(fleet: PathName, services: ServicesOf) -> GivenUp:
    """Read how far down the ladder (more spot, looser objectives, less load) a fleet has gone for its budgets."""
    PostgresFleets(services.database).load(fleet)
    return PostgresBudgets(services.database).given_up(fleet)
