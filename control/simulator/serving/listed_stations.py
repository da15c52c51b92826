"""Listed templates as stations of batches, with the capacity that is listed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated

import msgspec

from control.simulator.serving.batch_model import BatchModel
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.work import Route


@dataclass(frozen=True, slots=True)
class Batching:
    """Batches as a placement may state them."""

    batch: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    """Calls in one of them. 0: one where it serves a single work class, else all that wait: of several classes only a
    mixture is what a point promises."""
    lanes: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Batches at once."""
    start_ms: Annotated[float, msgspec.Meta(ge=0, le=3.6e6)] = 0.0
    """Time that a batch takes whatever is in it."""


def station_of(listed: ListedTemplate, routes: Iterable[Route], share: Mapping[str, float]) -> BatchModel:
    """Make the station of an instance of the template, or of one of its executors, for calls as large as those of
    `routes`. `share`: units/s by work class that are the executor's of the instance; empty: all of it.

    Raises ValueError for a placement whose batches cannot be."""
    points = (share,) if share else tuple(point.units_per_s for point in listed.points)
    rates = {name: max(point.get(name, 0.0) for point in points) for point in points for name in point}
    where = f"template {listed.template().id} of {listed.software.model}"
    try:
        given = msgspec.convert(listed.placement.payload, Batching)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: its placement cannot be simulated: {error}") from error
    if given.start_ms and not given.batch:
        text = f"it states start_ms {given.start_ms:g} and no batch; say how many calls share a start"
        raise ValueError(f"{where}: its placement cannot be simulated: {text}")
    legs = [leg for route in routes for leg in route.legs if leg.work_class in rates]
    largest_s = given.lanes * max((leg.units_per_request / rates[leg.work_class] for leg in legs), default=0.0)
    batch_s = given.batch * largest_s if given.batch else 0.0 if len(rates) == 1 else inf
    nodes = [node_config_from_id(config) for config in listed.nodes]
    return BatchModel(
        points,
        batch_s,
        min(given.start_ms / 1000, batch_s),
        given.lanes,
        sum(listed.nodes.values()),
        min(node.network_gbps for node in nodes) * 1e9 / 8,
    )
