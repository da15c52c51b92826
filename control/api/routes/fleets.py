"""Fleets: what their owners ask for, as the document that a spec file holds, and the accepted plan of each."""

from dataclasses import asdict, replace
from typing import Annotated, Any, Self

import msgspec
import yaml
from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from control.actions.apply_spec import WantedFleet, apply_spec, set_mode
from control.actions.end_fleet import end_fleet
from control.api.documented import problems
from control.api.etag import Version, tagged
from control.api.fleet_document import SpecDocument, checked, checked_source, document_of
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
from control.reconcile.fleet_world import files_of

router = api_router("fleets")
Confirm = Annotated[
    list[str] | None,
    Query(max_length=200, description="Models that serve and may be drained, each by name: a 409 says which."),
]


class NewFleet(BaseModel):
    model_config = ConfigDict(extra="forbid")

    spec: SpecDocument | None = Field(
        default=None, description="The content of a spec file (docs/spec.md). Its name is the fleet's."
    )
    source: str | None = Field(
        default=None, description="Instead of `spec`: a spec file as it is written, which is kept with its comments."
    )
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

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.spec is None) == (self.source is None):
            raise ValueError("give spec or source")
        return self


class FleetSource(BaseModel):
    source: str = Field(description="The spec file as it is written; of one that was sent as JSON, in YAML.")
    files: list[str] = Field(
        description="Files that it names on the machine where it was applied: while there are any it is changed there "
        "(`medley apply`), as a spec that is sent may name none."
    )


class ModeChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mode: FleetMode
    preflight: bool = Field(default=True, description="As of a new fleet.")


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


@router.get("/fleets/{fleet}/source", responses=problems(404))
def get_source(fleet: PathName, response: Response, services: ServicesOf) -> FleetSource:
    """The fleet's spec as its owner wrote it, with the ETag to change it by."""
    record = PostgresFleets(services.database).load(fleet)
    tagged(response, record.version)
    try:
        files = [str(path) for path in files_of(record)]
    except SpecError:  # it cannot be read any more: what is wrong is said when it is checked
        files = []
    return FleetSource(source=_written(record.spec), files=files)


@router.post("/fleets/{fleet}:set-mode", responses=problems(404, 409, 412, body=True))
def change_mode(fleet: PathName, body: ModeChange, act: ActOf, response: Response) -> Fleet:
    """Say how far the control plane may go with the fleet, whose spec stays as it is."""
    return _tagged(act.database, set_mode(act, fleet, body.mode, preflight=body.preflight), response)


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
    own = PostgresModels(database).own()
    if body.source is None:
        spec = body.spec or {}
        return WantedFleet(checked(spec, own), msgspec.json.encode(spec).decode(), "", body.mode, body.project)
    try:
        world = checked_source(body.source, own)
    except SpecError as error:
        lines = [field_problem(("source",), f"line {p.line}: {p.message}") for p in error.problems]
        raise ApiError(422, "invalid", lines[0].message, errors=lines) from None
    return WantedFleet(world, body.source, "", body.mode, body.project)


def _written(spec: str) -> str:
    """One that was sent as a document has a line only."""
    if not spec.startswith("{"):
        return spec
    try:
        return yaml.safe_dump(document_of(spec), sort_keys=False, allow_unicode=True, width=100)
    except SpecError:
        return spec


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
