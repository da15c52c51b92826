"""Fleets: what their owners ask for, as the document that a spec file holds, and the accepted plan of each."""

from dataclasses import asdict, replace
from typing import Annotated, Any

import msgspec
from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from control.actions.apply_spec import WantedFleet, apply_spec
from control.actions.end_fleet import end_fleet
from control.api.documented import problems
from control.api.etag import Version, tagged
from control.api.fleet_document import SpecDocument, checked, document_of
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, after, page
from control.api.problem import ApiError, field_problem
from control.api.text import PathName, QueryText
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.registered_models import PostgresModels
from control.fleet_file.problem import SpecError
from control.given_name import NAME_PATTERN
from control.lifecycle.fleet import FleetMode, FleetRecord, FleetTarget

router = api_router("fleets")
Confirm = Annotated[
    list[str] | None,
    Query(max_length=200, description="Models that serve and may be drained, each by name: a 409 says which."),
]


class NewFleet(BaseModel):
    model_config = ConfigDict(extra="forbid")

    spec: SpecDocument = Field(description="The content of a spec file (docs/spec.md). Its name is the fleet's.")
    project: str | None = Field(
        default=None, pattern=NAME_PATTERN, description="null: as it is; `default` for a new fleet."
    )
    mode: FleetMode | None = Field(
        default=None,
        description="observe: plan and touch nothing; approve: act on plans that somebody approved; auto: act on all. "
        "null: as it is; observe for a new fleet.",
    )
    preflight: bool = Field(
        default=True,
        description="Whether to look at where the weights of its models are before it is to act: a 422 "
        "`fails-preflight` says what nodes could not fetch. false: it is stored all the same.",
    )


class FleetPlan(BaseModel):
    """The accepted plan of a fleet, and the one that waits for approval. Empty: none."""

    model_config = ConfigDict(from_attributes=True)

    accepted: str
    accepted_at: str
    accepted_by: str
    proposed: str
    proposed_at: str


class Fleet(BaseModel):
    name: str
    project: str
    mode: FleetMode
    spec: dict[str, Any] = Field(description="Empty: what is stored cannot be read any more; `trouble` says why.")
    version: int
    ending: bool = Field(description="Its instances are drained; it is gone with the last of them.")
    updated_at: str
    plan: FleetPlan
    trouble: str = Field(description="Why it cannot be planned or run now, as its control plane says; empty: it can.")


@router.get("/fleets", responses=problems())
def list_fleets(
    services: ServicesOf, limit: Limit = 50, cursor: Cursor = None, project: QueryText = None
) -> Page[Fleet]:
    """List fleets by name."""
    (last,) = after(cursor, str) or ("",)
    fleets = PostgresFleets(services.database)
    rows, targets = fleets.page(limit + 1, str(last), project), fleets.targets()
    return page(rows, limit, lambda row: _shown(row, targets.get(row.name)), lambda row: (row.name,))


@router.post("/fleets", status_code=201, responses=problems(409, body=True))
def create_fleet(body: NewFleet, act: ActOf, response: Response) -> Fleet:
    """Create a fleet, in mode observe unless the body says otherwise: nothing is rented before somebody wants it."""
    made = apply_spec(act, _wanted(act.database, body), None, preflight=body.preflight)
    response.headers["Location"] = f"/api/v1/fleets/{made.name}"
    return _tagged(act.database, made, response)


@router.get("/fleets/{fleet}", responses=problems(404))
def get_fleet(fleet: PathName, response: Response, services: ServicesOf) -> Fleet:
    return _tagged(services.database, PostgresFleets(services.database).load(fleet), response)


@router.put("/fleets/{fleet}", responses=problems(404, 409, 412, 428, body=True))
def change_fleet(
    fleet: PathName, body: NewFleet, version: Version, act: ActOf, response: Response, confirm: Confirm = None
) -> Fleet:
    """Replace what the fleet's owner asks for: the next solve is made from it. 409 when a serving model would go."""
    before = PostgresFleets(act.database).load(fleet)
    wanted = _wanted(act.database, body)
    if wanted.world.name != fleet:
        message = f"is {wanted.world.name!r}, but this is fleet {fleet!r}: a fleet keeps its name"
        raise ApiError(422, "invalid", f"spec.name {message}", errors=[field_problem(("spec", "name"), message)])
    changed = apply_spec(act, wanted, replace(before, version=version), confirm or (), preflight=body.preflight)
    return _tagged(act.database, changed, response)


@router.delete(
    "/fleets/{fleet}",
    status_code=204,
    responses=problems(404, 409, 412, 428)
    | {202: {"model": Fleet, "description": "Its instances are being drained; it is gone with the last of them."}},
)
def delete_fleet(fleet: PathName, version: Version, act: ActOf, confirm: Confirm = None) -> Response:
    """End the fleet. 409 while models of it serve, unless they are confirmed; 204 when nothing of it runs, else 202."""
    ended = end_fleet(act, fleet, confirm or (), version)
    if not ended.draining:
        return Response(status_code=204)
    shown = _shown(ended.record, PostgresFleets(act.database).targets().get(fleet))
    return Response(shown.model_dump_json(), 202, {"Retry-After": "5"}, "application/json")


def _wanted(database: Database, body: NewFleet) -> WantedFleet:
    world = checked(body.spec, PostgresModels(database).own())
    return WantedFleet(world, msgspec.json.encode(body.spec).decode(), "", body.mode, body.project)


def _tagged(database: Database, record: FleetRecord, response: Response) -> Fleet:
    tagged(response, record.version)
    return _shown(record, PostgresFleets(database).targets().get(record.name))


def _shown(record: FleetRecord, target: FleetTarget | None) -> Fleet:
    target = target or FleetTarget(record.name)
    plan, trouble = FleetPlan.model_validate(target), target.trouble
    try:
        spec = document_of(record.spec)
    except SpecError as error:  # of an earlier release, or damaged: the other fleets are listed all the same
        spec, trouble = {}, trouble or f"its spec cannot be read any more: {error}"
    return Fleet(**asdict(record) | {"spec": spec, "plan": plan, "trouble": trouble})
