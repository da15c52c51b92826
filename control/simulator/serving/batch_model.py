"""Stations of batches, and what they cost in time: an encoder, a generator, a unit that several models share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb, inf
from typing import Annotated

import msgspec
import numpy as np

from templates_lib.ports.cost_model import Floats
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.work import Route

MOST_CORNERS = 20_000
"""Sets of limits that are tried for the facets of a capacity."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BatchModel:
    """An instance that takes calls from its queue in batches, each lane one after the other. Equal ones should share
    one object.

    A batch of units that take `work_s` of a lane at the certified capacity is done after

        start_s + (1 - start_s / batch_s) · work_s

    and holds as many calls, in order of arrival, as keep `work_s` up to `batch_s`, but at least one: full batches
    sustain what is certified, and no batches more. Units of several classes take the least time in which a mixture of
    the points makes them: a batch of both models of a shared unit is inside its region.
    """

    points: tuple[Mapping[str, float], ...]
    """Units per second by work class, as in `Capacity`: mixtures and less are allowed."""
    batch_s: float = 0.0
    """Seconds of a lane; 0: calls are served one by one."""
    start_s: float = 0.0
    """Seconds that a batch takes whatever is in it."""
    lanes: int = 1
    """Batches at once, which share the capacity evenly."""
    node_count: int = 1
    bytes_per_s: float = 0.0
    """Rate of its network in one direction; 0 where it takes in and sends nothing."""

    def __post_init__(self) -> None:
        rates = [rate for point in self.points for rate in point.values()]
        if not rates or not all(np.isfinite(rates)) or min(rates) <= 0:
            raise ValueError("a station of batches needs a throughput above 0 of every work class of its points")
        if not 0 <= self.start_s <= self.batch_s or min(self.lanes, self.node_count) < 1:
            raise ValueError("a batch starts within its own time, on at least one node and in at least one lane")

    def facets(self, classes: tuple[str, ...]) -> Floats:
        """(facets, classes) seconds per unit: what takes at most a second by each row is inside the capacity.

        The corners of {y ≥ 0: each point takes at most a second at y}, less those that another is nowhere below. Raises
        ValueError where there are too many to try."""
        own = [name for name in classes if any(name in point for point in self.points)]
        points = np.array([[point.get(name, 0.0) for name in own] for point in self.points])
        rows = np.vstack((points / points.max(axis=0), np.eye(len(own))))
        limits = np.concatenate((np.ones(len(points)), np.zeros(len(own))))
        if comb(len(rows), len(own)) > MOST_CORNERS:
            raise ValueError(f"{len(points)} operating points of {len(own)} work classes are too many to simulate")
        tried = combinations(range(len(rows)), len(own))
        corners = [corner for held in tried for corner in _corner(rows, limits, list(held))]
        found = np.unique(np.round(corners, 12), axis=0)
        least = [y for n, y in enumerate(found) if not any((z >= y).all() for m, z in enumerate(found) if m != n)]
        facets = np.zeros((len(least), len(classes)))
        facets[:, [classes.index(name) for name in own]] = np.array(least) / points.max(axis=0)
        return facets


def _corner(rows: Floats, limits: Floats, held: list[int]) -> list[Floats]:
    """Where these limits hold exactly, if the others hold there."""
    if abs(np.linalg.det(rows[held])) < _ROUNDING:
        return []
    corner = np.linalg.solve(rows[held], limits[held]).astype(np.float64)
    points = limits > 0
    is_inside = (corner >= -_ROUNDING).all() and (rows[points] @ corner <= 1 + _ROUNDING).all()
    return [np.maximum(corner, 0.0)] if is_inside else []


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
