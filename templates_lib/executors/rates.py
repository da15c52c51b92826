"""Seconds that a visit takes a replica, from what was measured of options (Cornserve, appendix C).

Times add up, rates do not: a replica that serves x requests/s of which each takes it τ seconds is busy Σ x·τ of the
time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from templates_lib.executors.executor_graph import ExecutorGraph
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path
from templates_lib.graphs.request_type import GraphRequestType

Seconds = Mapping[tuple[str, str], float]
"""(component, request type) → seconds of one request on one replica that runs the component alone."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Requests/s of one replica of an option under one mix."""

    shares: Mapping[str, float]
    """Request type → its share of all requests."""
    requests_per_s: float


def seconds_as_printed(
    executors: ExecutorGraph, types: Sequence[GraphRequestType], requests_per_s: Mapping[str, float]
) -> dict[tuple[str, Path], tuple[float, ...]]:
    """Algorithm 3: (request type, path) → seconds of each of its visits, from `requests_per_s` of every option at the
    mix of `types`.

    It gives a component the same seconds whatever the type, and cannot do without options of single components. Raises
    ValueError for a component of a larger option that none runs alone.
    """
    alone: dict[tuple[str, str], float] = {}
    for option in executors.options:
        if len(option.components) == 1:
            (component,) = option.components
            fraction = sum(each.share for each in types if component in each.components)
            for each in types:
                if component in each.components and fraction > 0:
                    # Options of one component on more GPUs are factors of the first one, as larger options are.
                    alone.setdefault((component, each.name), 1 / requests_per_s[option.name] / fraction)
    mix = {each.name: each.share for each in types}
    factors = {
        option.name: colocation_factor(option, types, alone, [Measured(mix, requests_per_s[option.name])])
        for option in executors.options
    }
    return seconds_by_type(executors, alone, factors)


def colocation_factor(
    option: DeploymentOption, types: Sequence[GraphRequestType], alone: Seconds, measured: Sequence[Measured]
) -> float:
    """α: how much longer an option takes than its components do alone, by least squares over the mixes measured.

    With one mix it is the paper's; 1 where no request of any mix visits the option.
    """
    products = squares = 0.0
    for each in measured:
        expected = sum(
            each.shares.get(kind.name, 0.0) * _alone(option, component, kind.name, alone)
            for kind in types
            for component in option.components
            if component in kind.components
        )
        products += expected / each.requests_per_s
        squares += expected * expected
    return products / squares if squares > 0 else 1.0


def seconds_by_type(
    executors: ExecutorGraph, alone: Seconds, factors: Mapping[str, float]
) -> dict[tuple[str, Path], tuple[float, ...]]:
    """Seconds of each visit where components take other times for other types, with each option's factor (1 if it has
    none). Raises ValueError for a component without a time."""
    found: dict[tuple[str, Path], tuple[float, ...]] = {}
    for kind, paths in executors.paths.items():
        for path in paths:
            found[kind, path] = tuple(
                factors.get(visit.option, 1.0)
                * sum(_alone(executors.option(visit.option), c, kind, alone) for c in visit.components)
                for visit in path.visits
            )
    return found


def _alone(option: DeploymentOption, component: str, kind: str, alone: Seconds) -> float:
    if (component, kind) not in alone:
        raise ValueError(
            f"deployment option {option.name!r}: nothing is measured of {component!r} alone for requests {kind!r}; "
            f"measure an option that runs only it"
        )
    return alone[component, kind]
