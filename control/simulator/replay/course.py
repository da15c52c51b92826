"""How a span went, interval by interval: what was paid, what could not be served, what was moved."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from control.simulator.report.over_time import amounts
from templates_lib.values.work import Route

Floats = NDArray[np.float64]
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Life:
    """The life of an instance, while it serves. Times are seconds since the span began."""

    zone: str
    units_per_s: Mapping[str, float]
    """By work class."""
    ready_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Held:
    """The life of a node, at one price."""

    name: str
    """Configuration and market, for people."""
    from_s: float
    until_s: float
    usd_per_hour: float | None
    """None: nobody knows."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Times in seconds."""

    launched: tuple[float, ...]
    moved: tuple[float, ...]
    """Instances that were told to go although nothing ailed them."""
    failed: tuple[float, ...]
    refused: tuple[float, ...]
    """Calls for nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Arrays (h,), one entry an interval."""

    edges_s: Floats
    """(h + 1,)"""
    usd: Floats
    """Cost of nodes whose price is known."""
    planned_usd_per_hour: Floats
    """Mean over time of the plans in force; NaN before the first."""
    offered: Floats
    """Requests of the planned lengths that would be as much work as what came."""
    unmet: Floats
    """The same, beyond the certified capacity of what was ready."""
    launched: Floats
    moved: Floats
    failed: Floats
    refused: Floats
    nodes: Mapping[str, Floats]
    """Configuration and market → nodes held, in the mean."""
    unpriced_node_hours: float

    @property
    def unmet_share(self) -> float:
        offered = float(self.offered.sum())
        return float(self.unmet.sum()) / offered if offered else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What came, minute by minute."""

    requests_per_s: Mapping[str, Floats]
    """App → (m,)"""

    def served(self, routes: Iterable[Route], lives: Iterable[Life], *, anywhere: bool) -> Mapping[str, Floats]:
        """App → (m,) what certified capacity would do: of each route as much as its scarcest leg, zone by zone
        (`anywhere`: all zones together, mode `paper`)."""
        minutes = len(next(iter(self.requests_per_s.values()), ()))
        capacity: dict[tuple[str, str], Floats] = {}
        middle = (np.arange(minutes) + 0.5) * MINUTE_S
        for life in lives:
            there = (middle >= life.ready_s) & (middle < life.until_s)
            for name, units in life.units_per_s.items():
                key = name, "" if anywhere else life.zone
                capacity[key] = capacity.get(key, np.zeros(minutes)) + units * there
        zones = {zone for _, zone in capacity}
        none = np.zeros(minutes)
        found = {app: np.zeros(minutes) for app in self.requests_per_s}
        for route in (route for route in routes if route.app in found):
            for zone in zones:
                legs = [capacity.get((leg.work_class, zone), none) / leg.units_per_request for leg in route.legs]
                found[route.app] += np.minimum.reduce(legs)
        return found


def build_course(
    edges_s: Floats,
    held: Sequence[Held],
    plans: Sequence[tuple[float, float]],
    demand: Demand,
    routes: Iterable[Route],
    lives: Iterable[Life],
    moves: Moves,
    *,
    anywhere: bool,
) -> Course:
    """`plans`: (from when, $/h) of those in force, in order. `edges_s`: from 0, whole minutes but the last."""
    priced = [each for each in held if each.usd_per_hour is not None]
    length_s = float(edges_s[-1])
    groups: dict[str, list[Held]] = {}
    for each in held:
        groups.setdefault(each.name, []).append(each)
    hours = np.diff(edges_s) / 3600
    served = demand.served(routes, lives, anywhere=anywhere)
    offered, unmet = np.zeros(ceil(length_s / MINUTE_S)), np.zeros(ceil(length_s / MINUTE_S))
    for app, rate in demand.requests_per_s.items():
        offered += MINUTE_S * rate
        unmet += MINUTE_S * np.maximum(rate - served[app], 0.0)
    place = np.searchsorted(edges_s, (np.arange(len(offered)) + 0.5) * MINUTE_S, side="right") - 1
    place = np.minimum(place, len(hours) - 1)

    def count(times: Sequence[float]) -> Floats:
        found: Floats = np.histogram(np.array(times), edges_s)[0].astype(np.float64)
        return found

    return Course(
        edges_s,
        _over(edges_s, priced, [each.usd_per_hour or 0.0 for each in priced]) / 3600,
        _in_force(edges_s, plans),
        np.bincount(place, offered, len(hours)).astype(np.float64),
        np.bincount(place, unmet, len(hours)).astype(np.float64),
        count(moves.launched),
        count(moves.moved),
        count(moves.failed),
        count(moves.refused),
        {name: _over(edges_s, groups[name], [1.0] * len(groups[name])) / (3600 * hours) for name in sorted(groups)},
        sum(_clipped_s(each, length_s) for each in held if each.usd_per_hour is None) / 3600,
    )


def _over(edges_s: Floats, held: Sequence[Held], rates: Sequence[float]) -> Floats:
    begin, end = (np.array([getattr(each, name) for each in held], np.float64) for name in ("from_s", "until_s"))
    return amounts(edges_s, np.maximum(begin, 0.0), np.maximum(end, 0.0), np.array(rates, np.float64))


def _clipped_s(held: Held, length_s: float) -> float:
    return max(0.0, min(held.until_s, length_s) - max(held.from_s, 0.0))


def _in_force(edges_s: Floats, plans: Sequence[tuple[float, float]]) -> Floats:
    ends = [*(at for at, _ in plans[1:]), float(edges_s[-1])][: len(plans)]
    spans = [Held("", at, max(at, end), usd) for (at, usd), end in zip(plans, ends, strict=True)]
    there = _over(edges_s, spans, [1.0] * len(spans))
    sums = _over(edges_s, spans, [each.usd_per_hour or 0.0 for each in spans])
    means: Floats = np.divide(sums, there, out=np.full(len(there), np.nan), where=there > 0)
    return means
