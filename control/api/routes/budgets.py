"""Budgets of fleets and projects: what may be spent, what is, and what a fleet has given up for it."""

from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from control.access.role import Role
from control.api.caller import CallerOf
from control.api.documented import needs, problems
from control.api.etag import Version, VersionOrNone, tagged
from control.api.guarded_route import ServicesOf, api_router
from control.api.problem import ApiError
from control.api.services import Services
from control.api.text import PathName
from control.cost.budgets import BudgetReport, budget_book
from control.db.budgets import GivenUp, PostgresBudgets, Scope
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.fleets import PostgresFleets
from control.db.ledger import PostgresLedger
from control.db.projects import PostgresProjects
from policies.budget import Budget as Limits

router = api_router("budgets")
Dollars = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class BudgetLimits(BaseModel):
    """At least one of the first two."""

    model_config = ConfigDict(extra="forbid")

    usd_per_hour: Dollars | None = None
    usd_per_month: Dollars | None = Field(default=None, description="Of a calendar month, UTC.")
    floor_usd_per_hour: float = Field(
        default=0.0, ge=0, le=1e9, allow_inf_nan=False, description="Granted whatever was spent."
    )


class Budgets(BaseModel):
    items: list[BudgetReport]


@router.get("/budgets", responses=problems())
def list_budgets(services: ServicesOf) -> Budgets:
    """By scope and name; there is at most one a fleet and one a project."""
    return Budgets(items=list(_book(services)))


@router.get("/budgets/{scope}/{name}", responses=problems(404))
def get_budget(scope: Scope, name: PathName, response: Response, services: ServicesOf) -> BudgetReport:
    found = _report(services, scope, name)
    tagged(response, found.version)
    return found


@router.put(
    "/budgets/{scope}/{name}",
    responses=problems(404, 412, 428, body=True) | {201: {"model": BudgetReport, "description": "There was none."}},
    openapi_extra=needs(Role.ADMIN),
)
def put_budget(
    scope: Scope,
    name: PathName,
    body: BudgetLimits,
    version: VersionOrNone,
    caller: CallerOf,
    response: Response,
    services: ServicesOf,
) -> BudgetReport:
    """Make a budget (`If-None-Match: *`) or replace it (`If-Match`)."""
    now = services.clock()
    try:
        limits = Limits(body.usd_per_hour, body.usd_per_month, body.floor_usd_per_hour)
    except ValueError as error:
        raise ApiError(422, "invalid", str(error)) from None
    with services.database.as_one() as database:
        _check_subject(database, scope, name)
        PostgresBudgets(database).put(scope, name, limits, now, version)
        fleet = name if scope is Scope.FLEET else ""
        what = f"set the budget of {scope} {name}"
        caller.did(database, now, "budget.changed", what, fleet=fleet, subject=name, detail=limits.given)
    found = _report(services, scope, name)
    tagged(response, found.version)
    response.status_code = 201 if version == 0 else 200
    return found


@router.delete(
    "/budgets/{scope}/{name}",
    status_code=204,
    responses=problems(404, 412, 428),
    openapi_extra=needs(Role.ADMIN),
)
def delete_budget(
    scope: Scope,
    name: PathName,
    version: Version,
    caller: CallerOf,
    services: ServicesOf,
) -> None:
    """From now on nothing limits what is spent but the spec's own policy."""
    now = services.clock()
    with services.database.as_one() as database:
        PostgresBudgets(database).remove(scope, name, version)
        fleet = name if scope is Scope.FLEET else ""
        caller.did(database, now, "budget.removed", f"removed the budget of {scope} {name}", fleet=fleet, subject=name)


@router.get("/fleets/{fleet}/given-up", responses=problems(404))
def get_given_up(fleet: PathName, services: ServicesOf) -> GivenUp:
    """How far down the ladder (more spot, looser objectives, less load) a fleet has gone for its budgets."""
    PostgresFleets(services.database).load(fleet)
    return PostgresBudgets(services.database).given_up(fleet)


def _book(services: Services) -> tuple[BudgetReport, ...]:
    database = services.database
    return budget_book(PostgresBudgets(database), PostgresLedger(database), services.clock()).reports()


def _report(services: Services, scope: Scope, name: str) -> BudgetReport:
    found = next((each for each in _book(services) if (each.scope, each.name) == (scope, name)), None)
    if found is None:
        raise NotStoredError(f"{scope} {name!r} has no budget")
    return found


def _check_subject(database: Database, scope: Scope, name: str) -> None:
    if scope is Scope.FLEET:
        PostgresFleets(database).load(name)
    else:
        PostgresProjects(database).load(name)
