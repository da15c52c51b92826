"""Costs by what the money was spent on and how fast, reckoned from what every node cost."""

from datetime import datetime, timedelta

from pydantic import BaseModel, Field

from control.access.role import Role
from control.api.caller import CallerOf
from control.api.documented import needs, problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.page import Cursor, Items, Limit, Page, after, page
from control.api.periods import MAX_POINTS, Points, Since, Until, parts, period
from control.api.text import QueryText
from control.cost.report import CostReport, cost_report
from control.db.burn import spent_between
from control.db.ledger import PostgresLedger
from control.db.series_step import Steps
from control.fleet.key_costs import MOST_SPAN, KeyCost, key_costs
from control.fleet.usage import ModelUse, ProjectUse, usage
from control.ledger.cost_line import By
from control.ledger.period import month_so_far

router = api_router("cost")


class CostPoint(BaseModel):
    since: datetime
    until: datetime
    usd: float = Field(description="Spent in it, leaks included.")
    usd_per_hour: float = Field(description="On average.")
    leaked_usd: float


@router.get("/cost", responses=problems())
def get_cost(services: ServicesOf, by: By = By.MODEL, since: Since = None, until: Until = None) -> CostReport:
    """Report costs to the cent; of this month unless the query says otherwise. The lines add up to the total."""
    now = services.clock()
    span = period(since, until, now, month_so_far(now).since)
    return cost_report(PostgresLedger(services.database), span, by, now)


class UsageReport(BaseModel):
    since: datetime
    until: datetime
    models: tuple[ModelUse, ...] = Field(
        description="The dearest first. `used` is the share of ready capacity that was used; `idle_usd` the "
        "dollars for what was not. null: it is not known."
    )
    projects: tuple[ProjectUse, ...] = Field(
        description="By the project of the keys that were used: the parts of its keys, as `/cost/keys` has them. An "
        "empty name: gateways that ask for no key."
    )
    unused_usd: float = Field(description="Dollars for what nobody used: of no project.")


@router.get("/cost/usage", responses=problems())
def get_usage(services: ServicesOf, since: Since = None, until: Until = None) -> UsageReport:
    """Dollars beside what was served for them; of the last day unless the query says otherwise. The span begins with a
    whole step of the clock, an hour at most for a week."""
    now = services.clock()
    span = period(since, until, now, timedelta(days=1))
    steps = Steps.over(span.since, span.until, MAX_POINTS, now)
    found = usage(services.database, steps)
    return UsageReport(
        since=steps.since,
        until=steps.until,
        models=found.models,
        projects=found.projects,
        unused_usd=found.unused_usd,
    )


class KeyCostPage(Page[KeyCost]):
    since: datetime
    until: datetime
    usd: float | None = Field(description="Rent, in whole cents: what keys and `idle_usd` add up to. null: a client.")
    idle_usd: float | None = Field(description="Of it, for what nobody used. null: a client.")


@router.get("/cost/keys", responses=problems(), openapi_extra=needs(Role.CLIENT))
def get_key_costs(
    services: ServicesOf,
    caller: CallerOf,
    since: Since = None,
    until: Until = None,
    fleet: QueryText = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> KeyCostPage:
    """What the use of each API key cost, the dearest first: its part of the rent of what served it, of all fleets or
    one; of the last day unless the query says otherwise, of 92 days at most. A client sees its own key alone."""
    now = services.clock()
    span = period(since, until, now, timedelta(days=1), MOST_SPAN)
    following = after(cursor, int, str, str)
    found = key_costs(services.database, span, now, fleet)
    is_client = not caller.role.covers(Role.VIEWER)
    rows = [each for each in found.keys if not is_client or each.key == caller.token_id]
    rows = rows if following is None else [each for each in rows if _place(each) > following]
    cut = page(rows, limit, lambda each: each, _place)
    return KeyCostPage(
        items=cut.items,
        next=cut.next,
        since=found.since,
        until=found.until,
        usd=None if is_client else found.usd,
        idle_usd=None if is_client else found.idle_usd,
    )


def _place(of: KeyCost) -> tuple[int, str, str]:
    """Where it stands in the list."""
    return -round(of.usd * 100), of.project, of.key


@router.get("/cost/series", responses=problems())
def get_cost_series(
    services: ServicesOf,
    points: Points = 24,
    since: Since = None,
    until: Until = None,
    fleet: QueryText = None,
    project: QueryText = None,
) -> Items[CostPoint]:
    """The burn rate over time; of the last day unless the query says otherwise."""
    cut = parts(period(since, until, services.clock(), timedelta(days=1)), points)
    bounds = [cut[0].since, *(part.until for part in cut)]
    items = [
        CostPoint(
            since=part.since,
            until=part.until,
            usd=float(spent.usd),
            usd_per_hour=float(spent.usd) / part.hours if part.hours else 0.0,
            leaked_usd=float(spent.leaked_usd),
        )
        for part, spent in zip(cut, spent_between(services.database, bounds, fleet, project), strict=True)
    ]
    return Items(items=items)
