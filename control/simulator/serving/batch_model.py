"""What a station of batches costs in time: an encoder, a generator, a unit that several models share."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from templates_lib.ports.cost_model import Floats

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
