"""Spec files while they are written: a first one to begin from, and what is wrong with one, by line."""

from typing import Annotated, Any

import yaml
from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from control.access.role import Role
from control.api.documented import needs, problems
from control.api.fleet_document import checked_source, document_of
from control.api.guarded_route import ServicesOf, api_router
from control.api.text import QueryText
from control.db.registered_models import PostgresModels
from control.fleet_file.document import MAX_BYTES
from control.fleet_file.problem import SpecError
from control.fleet_file.starter import starter
from control.given_name import NAME_PATTERN

router = api_router("fleets")


class SpecText(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: str = Field(max_length=MAX_BYTES, description="A spec file (YAML or JSON).")


class LineProblem(BaseModel):
    line: int = Field(description="From 1; 0: the file as a whole is meant.")
    message: str


class CheckedSpec(BaseModel):
    name: str = Field(description="Name of the fleet; empty: it has problems.")
    spec: dict[str, Any] | None = Field(description="The file as a document, for `plans`; null: it has problems.")
    models: list[str] = Field(description="What clients would call.")
    problems: list[LineProblem] = Field(description="Empty: it can be planned and applied.")


class Starter(BaseModel):
    source: str


@router.post("/specs:check", responses=problems(body=True), openapi_extra=needs(Role.VIEWER))
def check_spec(body: SpecText, services: ServicesOf) -> CheckedSpec:
    """Read a spec file, and keep nothing."""
    try:
        world = checked_source(body.source, PostgresModels(services.database).own())
    except SpecError as error:
        wrong = [LineProblem(line=each.line, message=each.message) for each in error.problems]
        return CheckedSpec(name="", spec=None, models=[], problems=wrong)
    served = sorted({share.app for app in world.fleet.every_app for share in app.shares})
    return CheckedSpec(name=world.name, spec=document_of(body.source), models=served, problems=[])


@router.get("/specs/starter", responses=problems())
def get_starter(
    name: Annotated[str, Query(pattern=NAME_PATTERN)] = "first",
    model: QueryText = None,
    cloud: QueryText = None,
    requests_per_s: Annotated[float | None, Query(gt=0, le=1e9, allow_inf_nan=False)] = None,
) -> Starter:
    """A first spec to begin from, as `medley init` writes it. What does not suit it is found when it is checked."""
    models = () if model is None else (_word(model),)
    clouds = () if cloud is None else (_word(cloud),)
    return Starter(source=starter(name, models, clouds, requests_per_s=requests_per_s))


def _word(text: str) -> str:
    """The text as one YAML value, whatever it holds."""
    return str(yaml.safe_dump(text, width=1000, default_flow_style=True)).removesuffix("...\n").strip()
