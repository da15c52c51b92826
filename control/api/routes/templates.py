"""Templates: what can be built, library by library."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from fastapi import Path, Query
from pydantic import BaseModel, Field

from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.ids import TemplateId
from control.api.page import Cursor, Items, Limit, Page, after, page
from control.api.text import Readable
from control.db.libraries import PostgresLibraries
from control.db.template_pages import TemplateSummary, template_page
from control.planning.templates import stored_template
from templates_lib.ports.library_store import LibraryInfo
from templates_lib.sources.placement_kinds import executors_of, gpu_executors
from templates_lib.values.offer import Market, Offer
from templates_lib.values.placement import Stage
from templates_lib.values.template import Capacity

router = api_router("templates")


Prices = Mapping[str, Mapping[str, float]]
"""Zone → node configuration → dollars per hour of its cheapest offer that can be had for good."""


class TemplateItem(BaseModel):
    id: str
    nodes: dict[str, int] = Field(description="Node configuration: how many.")
    units_per_s: float = Field(description="Unit of the class: prompt tokens, output tokens, or whole requests.")
    usd_per_hour: float | None = Field(description="In the cheapest zone, without spot; null: no zone sells all.")


class Replicas(BaseModel):
    """Executors that are alike, each of them on GPUs of its own of the template's node."""

    components: tuple[str, ...] = Field(description="Of a graph, computed together.")
    gpus: int = Field(description="GPUs of each.")
    devices: tuple[tuple[int, ...], ...] = Field(description="Numbers of the node's GPUs that each has.")
    together: dict[str, int] = Field(description="`COMPONENT/TYPE`: requests that each serves at once.")


class Template(BaseModel):
    id: str
    library_version: str = Field(description="The newest library that has it.")
    model: str
    model_revision: str
    dtype: str
    engine: str
    dispatch: str
    served_as: str = Field(description="The name it is served under; empty: the model's id.")
    nodes: dict[str, int]
    placement: dict[str, Any]
    stages: tuple[Stage, ...] | None = Field(
        description="Layers on nodes, of its placement; null: it has components of a graph, or nothing reads it."
    )
    executors: tuple[Replicas, ...] = Field(description="Components of a graph on GPUs; none: it has layers.")
    capacity: Capacity


@router.get("/libraries", responses=problems())
def list_libraries(services: ServicesOf) -> Items[LibraryInfo]:
    """List libraries, the oldest first. There are as many as specs, profiles and hardware have changed what can be
    built."""
    return Items(items=list(PostgresLibraries(services.database).libraries()))


@router.get("/libraries/{version}/templates", responses=problems(404))
def list_templates(
    version: Annotated[str, Path(pattern=r"^[A-Za-z0-9-]{1,64}$")],
    work_class: Annotated[
        str, Query(max_length=200, description="`model/phase`, as `classes` of the library names it."), Readable
    ],
    services: ServicesOf,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[TemplateItem]:
    """List templates of one work class by id, with what they sustain and the least that they cost now."""
    (last,) = after(cursor, str) or ("",)
    rows = template_page(services.database, version, work_class, limit + 1, str(last))
    prices = least_prices(services.offers.read(services.clock()).offers)
    return page(rows, limit, lambda row: _item(row, prices), lambda row: (row.id,))


@router.get("/templates/{template}", responses=problems(404))
def get_template(template: TemplateId, services: ServicesOf) -> Template:
    """Show what a template runs where, and what it sustains."""
    found = stored_template(PostgresLibraries(services.database), template)
    fields = msgspec.to_builtins(found.template)
    executors = executors_of(found.template)
    stages = tuple(stage for each in executors or () for stage in each.stages) or None
    replicas = tuple(Replicas(**msgspec.to_builtins(each)) for each in gpu_executors(found.template))
    return Template(
        **fields,
        stages=stages,
        executors=replicas,
        library_version=found.library_version,
        capacity=found.capacity,
    )


def _item(row: TemplateSummary, prices: Prices) -> TemplateItem:
    cost = least_usd_per_hour(row.nodes, prices)
    return TemplateItem(id=row.id, nodes=row.nodes, units_per_s=row.units_per_s, usd_per_hour=cost)


def least_prices(offers: Iterable[Offer]) -> Prices:
    prices: dict[str, dict[str, float]] = {}
    for offer in offers:
        if offer.market is not Market.SPOT and offer.available_count != 0:
            zone = prices.setdefault(offer.zone_id, {})
            zone[offer.node_config] = min(offer.usd_per_hour, zone.get(offer.node_config, offer.usd_per_hour))
    return prices


def least_usd_per_hour(nodes: Mapping[str, int], prices: Prices) -> float | None:
    """Return what the nodes cost in the cheapest zone that sells all of them, $/h; None when no zone does."""
    costs = [
        sum(count * zone[config] for config, count in nodes.items())
        for zone in prices.values()
        if nodes.keys() <= zone.keys()
    ]
    return min(costs, default=None)
