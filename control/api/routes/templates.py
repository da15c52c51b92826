"""Templates: what can be built, library by library."""

from typing import Annotated, Any

import msgspec
from fastapi import Path
from pydantic import BaseModel, Field

from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.db.libraries import PostgresLibraries
from control.planning.templates import stored_template
from templates_lib.library_store import LibraryInfo
from templates_lib.template import Capacity

router = api_router("templates")


class Libraries(BaseModel):
    items: list[LibraryInfo]


class Template(BaseModel):
    id: str
    library_version: str = Field(description="The newest library that has it.")
    model: str
    model_revision: str
    dtype: str
    engine: str
    dispatch: str
    nodes: dict[str, int]
    placement: dict[str, Any]
    capacity: Capacity


@router.get("/libraries", responses=problems())
def list_libraries(services: ServicesOf) -> Libraries:
    """Oldest first. There are as many as specs, profiles and hardware have changed what can be built."""
    return Libraries(items=list(PostgresLibraries(services.database).libraries()))


@router.get("/templates/{template}", responses=problems(404))
def get_template(template: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")], services: ServicesOf) -> Template:
    """What it runs where, and what it sustains."""
    found = stored_template(PostgresLibraries(services.database), template)
    fields = msgspec.to_builtins(found.template)
    return Template(**fields, library_version=found.library_version, capacity=found.capacity)
