"""The planner's problem without a network: options, request types with their mix, and seconds of every visit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.executors.executor_graph import ExecutorGraph
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path
from templates_lib.graphs.request_type import GraphRequestType

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TimedPath:
    request_type: str
    path: Path
    seconds: tuple[float, ...]
    """Seconds of a replica that each visit takes for one request: 1 / w of the paper."""


@dataclass(frozen=True, slots=True)
class CellProblem:
    """Raises ValueError for seconds that are not positive and finite, and types of the mix that have no path."""

    options: tuple[DeploymentOption, ...]
    shares: Mapping[str, float]
    """Request type → share of all requests."""
    paths: tuple[TimedPath, ...]

    def __post_init__(self) -> None:
        for each in self.paths:
            for visit, seconds in zip(each.path.visits, each.seconds, strict=True):
                if not 0 < seconds < np.inf:
                    raise ValueError(
                        f"requests {each.request_type!r} take {visit.option!r} {seconds} s; "
                        f"leave out paths that cannot serve, and measure the others"
                    )
        served = {each.request_type for each in self.paths}
        for name, share in self.shares.items():
            if share > 0 and name not in served:
                raise ValueError(f"request type {name!r} has no path; add one, or leave the type out of the mix")

    @property
    def gpus(self) -> Floats:
        """(S,) GPUs of one replica of each option."""
        return np.array([option.gpus for option in self.options], dtype=np.float64)

    @property
    def seconds(self) -> Floats:
        """(S, P) seconds that a request of each path takes of each option."""
        place = {option.name: number for number, option in enumerate(self.options)}
        table = np.zeros((len(self.options), len(self.paths)))
        for column, each in enumerate(self.paths):
            for visit, seconds in zip(each.path.visits, each.seconds, strict=True):
                table[place[visit.option], column] += seconds
        return table

    @property
    def types(self) -> tuple[str, ...]:
        """Request types that some request is of."""
        return tuple(name for name, share in self.shares.items() if share > 0)

    def of_types(self, names: Sequence[str]) -> Floats:
        """(T, P) 1 where a path is of a type."""
        rows = [[float(each.request_type == name) for each in self.paths] for name in names]
        return np.array(rows).reshape(len(names), len(self.paths))


def cell_problem(
    executors: ExecutorGraph,
    types: Sequence[GraphRequestType],
    seconds: Mapping[tuple[str, Path], tuple[float, ...]],
) -> CellProblem:
    """The problem of an executor graph whose visits take `seconds` (`templates_lib.executors.rates`)."""
    paths = [
        TimedPath(name, path, seconds[name, path]) for name, of_type in executors.paths.items() for path in of_type
    ]
    return CellProblem(executors.options, {each.name: each.share for each in types}, tuple(paths))
