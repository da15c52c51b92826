"""Any-to-any models of fleets: their graphs, and how a plan serves them."""

from typing import Literal

from pydantic import BaseModel, Field

from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.page import Items
from control.api.text import PathName, QueryText
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.fleets import PostgresFleets
from control.db.plan_summary import PostgresPlanList
from control.db.plans import PostgresPlans
from control.db.registered_models import PostgresModels
from control.fleet_file.problem import SpecError
from control.lifecycle.fleet import FleetRecord
from control.planning.planned_app import PlannedApp, planned_app
from control.reconcile.fleet_world import apps_of_record
from templates_lib.apps.graph_app import PublishedApp, app_of
from templates_lib.values.nearest_name import nearest_name

router = api_router("apps")


class AppType(BaseModel):
    request_type: str = Field(description="What comes in and what goes out.")
    share: float = Field(description="Share of all requests of the app, 0 to 1.")


class AppItem(BaseModel):
    fleet: str
    app: str = Field(description="As clients call it; unique in its fleet.")
    graph: str = Field(description="Id of its graph.")
    request_types: list[AppType]


class ShownApp(BaseModel):
    fleet: str
    plan: str | None = Field(description="The plan that the figures are of; null: the fleet has none, and all are 0.")
    state: Literal["in_force", "planned", "unplanned"] = Field(
        description="`in_force`: its fleet is held to that plan; `planned`: it is the newest, and nobody has accepted "
        "one; `unplanned`: there is none."
    )
    planned: PlannedApp


@router.get("/apps", responses=problems())
def list_apps(services: ServicesOf, fleet: QueryText = None) -> Items[AppItem]:
    """List the any-to-any models that specs of fleets name, by fleet. A fleet whose spec cannot be read any more is
    left out: `status` says why."""
    found: list[AppItem] = []
    for record in PostgresFleets(services.database).all():
        if fleet in (None, record.name):
            try:
                apps = _apps(services.database, record)
            except SpecError:
                continue
            found += (_item(record, app) for app in apps)
    return Items(items=found)


@router.get("/fleets/{fleet}/apps/{app}", responses=problems(404))
def get_app(fleet: PathName, app: PathName, services: ServicesOf) -> ShownApp:
    """Show the graph of an app, what flows on its edges, and the load and cost of each component: by the plan that its
    fleet is held to, or else by the newest that was made of it."""
    fleets, plans = PostgresFleets(services.database), PostgresPlans(services.database)
    record = fleets.load(fleet)
    apps = {each.name: each for each in _apps(services.database, record)}
    if app not in apps:
        raise NotStoredError(f"fleet {fleet!r} has no app {app!r}; {nearest_name(app, apps)}")
    made, accepted = app_of(apps[app]), fleets.target(fleet).accepted
    newest = PostgresPlanList(services.database).page(1, None, fleet)
    name = accepted or (newest[0].id if newest else "")
    if not name:
        return ShownApp(fleet=fleet, plan=None, state="unplanned", planned=planned_app(made))
    plan = plans.load(name)
    planned = planned_app(made, plan, plans.snapshot(plan.snapshot_version))
    return ShownApp(fleet=fleet, plan=name, state="in_force" if accepted else "planned", planned=planned)


def _apps(database: Database, record: FleetRecord) -> tuple[PublishedApp, ...]:
    return apps_of_record(record, PostgresModels(database).own())


def _item(record: FleetRecord, app: PublishedApp) -> AppItem:
    types = [AppType(request_type=each.name, share=each.share) for each in app.types]
    return AppItem(fleet=record.name, app=app.name, graph=app.graph, request_types=types)
