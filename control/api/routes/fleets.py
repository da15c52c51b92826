"""Fleets: what their owners ask for, as the document that a spec file holds, and the plan each is held to."""

from typing import Annotated, Any

import msgspec
from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from control.api.caller import CallerOf
from control.api.documented import problems
from control.api.etag import Version, tagged
from control.api.fleet_document import SpecDocument, checked, document_of, served_names
from control.api.guarded_route import ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, after, page
from control.api.problem import ApiError, field_problem
from control.api.project_field import check_project
from control.api.text import PathName, QueryText
from control.api.traffic import refuse_loss
from control.db.errors import InUseError, StaleVersionError
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.registered_models import PostgresModels
from control.given_name import DEFAULT_PROJECT, NAME_PATTERN
from control.lifecycle.fleet import FleetMode, FleetRecord, FleetTarget

router = api_router("fleets")
Confirm = Annotated[
    list[str] | None,
    Query(
        max_length=200, description="Models whose traffic may be lost, each by name, after a 409 has said what that is."
    ),
]


class NewFleet(BaseModel):
    model_config = ConfigDict(extra="forbid")

    spec: SpecDocument = Field(description="As in a spec file (docs/spec.md). Its name is the fleet's.")
    project: str = Field(default=DEFAULT_PROJECT, pattern=NAME_PATTERN)
    mode: FleetMode = Field(
        default=FleetMode.OBSERVE,
        description="observe: plan and touch nothing; approve: act on plans that somebody approved; auto: act on all.",
    )


class Held(BaseModel):
    """The plan that a fleet is held to, and the one that waits for somebody's word. Empty: none."""

    accepted: str
    accepted_at: str
    accepted_by: str
    proposed: str
    proposed_at: str


class Fleet(BaseModel):
    name: str
    project: str
    mode: FleetMode
    spec: dict[str, Any]
    version: int
    ending: bool = Field(description="Its instances are drained; it is gone with the last of them.")
    updated_at: str
    plan: Held
    trouble: str = Field(description="Why it cannot be planned or run now, as its control plane says; empty: it can.")


@router.get("/fleets", responses=problems())
def list_fleets(
    services: ServicesOf, limit: Limit = 50, cursor: Cursor = None, project: QueryText = None
) -> Page[Fleet]:
    """By name."""
    (last,) = after(cursor, str) or ("",)
    fleets = PostgresFleets(services.database)
    rows, targets = fleets.page(limit + 1, str(last), project), fleets.targets()
    return page(rows, limit, lambda row: _shown(row, targets.get(row.name)), lambda row: (row.name,))


@router.post("/fleets", status_code=201, responses=problems(409, body=True))
def create_fleet(body: NewFleet, caller: CallerOf, response: Response, services: ServicesOf) -> Fleet:
    """It starts in mode observe unless the body says otherwise: nothing is rented before somebody wants it."""
    now = services.clock()
    with services.database.as_one() as database:
        world = checked(body.spec, PostgresModels(database).own())
        check_project(database, body.project)
        fleets = PostgresFleets(database)
        try:
            made = fleets.create(world.name, _text(body), now, project=body.project, mode=body.mode)
        except StaleVersionError as error:
            raise InUseError(str(error)) from None
        caller.did(
            database, now, "fleet.created", f"created fleet {made.name} in mode {made.mode}",
            fleet=made.name, subject=made.name,
        )  # fmt: skip
        target = fleets.target(made.name)
    response.headers["Location"] = f"/api/v1/fleets/{made.name}"
    tagged(response, made.version)
    return _shown(made, target)


@router.get("/fleets/{fleet}", responses=problems(404))
def get_fleet(fleet: PathName, response: Response, services: ServicesOf) -> Fleet:
    fleets = PostgresFleets(services.database)
    found = fleets.load(fleet)
    tagged(response, found.version)
    return _shown(found, fleets.target(fleet))


@router.put("/fleets/{fleet}", responses=problems(404, 409, 412, 428, body=True))
def change_fleet(
    fleet: PathName,
    body: NewFleet,
    version: Version,
    caller: CallerOf,
    response: Response,
    services: ServicesOf,
    confirm: Confirm = None,
) -> Fleet:
    """Replace what the fleet's owner asks for: the next solve is made from it. 409 when a serving model would go."""
    now = services.clock()
    with services.database.as_one() as database:
        fleets = PostgresFleets(database)
        before = fleets.load(fleet)
        world = checked(body.spec, PostgresModels(database).own())
        if world.name != fleet:
            message = f"is {world.name!r}, but this is fleet {fleet!r}: a fleet keeps its name"
            raise ApiError(422, "invalid", f"spec.name {message}", errors=[field_problem(("spec", "name"), message)])
        check_project(database, body.project)
        staying = {app.name for app in world.fleet.apps}
        refuse_loss(database, before.name, served_names(before) - staying, confirm or ())
        changed = fleets.change(
            fleet, version, now, spec=_text(body), folder="", project=body.project, mode=body.mode, ending=False
        )
        what = f"changed fleet {fleet} to version {changed.version}, mode {changed.mode}"
        caller.did(database, now, "fleet.changed", what, fleet=fleet, subject=fleet)
        target = fleets.target(fleet)
    tagged(response, changed.version)
    return _shown(changed, target)


@router.delete(
    "/fleets/{fleet}",
    status_code=204,
    responses=problems(404, 409, 412, 428)
    | {202: {"model": Fleet, "description": "Its instances are being drained; it is gone with the last of them."}},
)
def delete_fleet(
    fleet: PathName,
    version: Version,
    caller: CallerOf,
    services: ServicesOf,
    confirm: Confirm = None,
) -> Response:
    """End the fleet. 409 while models of it serve, unless they are confirmed; 204 when nothing of it runs, else 202."""
    now = services.clock()
    with services.database.as_one() as database:
        fleets = PostgresFleets(database)
        before = fleets.load(fleet)
        refuse_loss(database, fleet, served_names(before), confirm or ())
        ended = fleets.change(fleet, version, now, ending=True)
        runs = bool(PostgresInstances(database).of_fleet(fleet))
        if not runs:
            fleets.remove(fleet)
        caller.did(database, now, "fleet.removed", f"ended fleet {fleet}", fleet=fleet, subject=fleet)
        target = fleets.target(fleet) if runs else None
    if not runs:
        return Response(status_code=204)
    shown = _shown(ended, target)
    return Response(shown.model_dump_json(), 202, {"Retry-After": "5"}, "application/json")


def _text(body: NewFleet) -> str:
    return msgspec.json.encode(body.spec).decode()


def held(target: FleetTarget) -> Held:
    return Held(
        accepted=target.accepted,
        accepted_at=target.accepted_at,
        accepted_by=target.accepted_by,
        proposed=target.proposed,
        proposed_at=target.proposed_at,
    )


def _shown(record: FleetRecord, target: FleetTarget | None) -> Fleet:
    return Fleet(
        name=record.name,
        project=record.project,
        mode=record.mode,
        spec=document_of(record.spec),
        version=record.version,
        ending=record.ending,
        updated_at=record.updated_at,
        plan=held(target or FleetTarget(record.name)),
        trouble="" if target is None else target.trouble,
    )
