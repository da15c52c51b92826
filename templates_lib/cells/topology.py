"""The multicommodity network design problem over physical nodes (Cornserve, appendix A, equations 4 to 8).

As printed, nothing ties the traffic f between nodes to the replicas y on them: only the sum of all bandwidths counts,
and a plan may put an encoder and its decoder on nodes without a link. Corrected, requests are followed: each visit of a
path is at a node, whose replicas have the time for it, and what it sends goes from there to where the next visit is.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from templates_lib.cells.problem import CellProblem, Floats, TimedPath
from templates_lib.cells.solver import SmallProgram, optimum
from templates_lib.executors.path import Traffic


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    gpus: tuple[int, ...]
    """GPUs of each node."""
    bytes_per_s: Floats
    """(H, H) bandwidth from node to node; the diagonal is that within a node, and may be infinite."""


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    replicas: Mapping[tuple[str, int], int]
    """(option, node) → replicas."""
    gpus: int


@dataclass(slots=True)
class _Rows:
    """Rows of a program as they are found: entries by column, with bounds."""

    entries: list[dict[int, float]] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, entries: Mapping[int, float], lower: float, upper: float) -> None:
        size = max((abs(value) for value in entries.values()), default=0.0) or 1.0
        self.entries.append({column: value / size for column, value in entries.items()})
        self.lower.append(lower / size)
        self.upper.append(upper / size)

    def program(self, cost: Floats, integer: NDArray[np.bool_]) -> SmallProgram:
        table = np.zeros((len(self.entries), len(cost)))
        for number, row in enumerate(self.entries):
            for column, value in row.items():
                table[number, column] = value
        return SmallProgram(cost, table, np.array(self.lower), np.array(self.upper), integer)


def fewest_gpus_as_printed(
    problem: CellProblem, traffic: Sequence[Sequence[Traffic]], topology: Topology, requests_per_s: float
) -> PlacedPlan | None:
    """Equations 4 to 8 as the paper prints them; None: nothing satisfies them. `traffic`: of each of the problem's
    paths."""
    rows, paths, options, nodes = _Rows(), len(problem.paths), len(problem.options), len(topology.gpus)
    placed = paths + np.arange(options * nodes).reshape(options, nodes)
    sent: dict[tuple[str, str], dict[int, float]] = {}
    for number, (each, moves) in enumerate(zip(problem.paths, traffic, strict=True)):
        for move in moves:
            ends = each.path.visits[move.source].option, each.path.visits[move.target].option
            by_path = sent.setdefault(ends, {})
            by_path[number] = by_path.get(number, 0.0) + move.bytes_per_request * requests_per_s
    first = paths + options * nodes
    flows = first + np.arange(len(sent) * nodes * nodes).reshape(len(sent), nodes, nodes)
    for row, name in zip(problem.of_types(problem.types), problem.types, strict=True):
        share = problem.shares[name]
        rows.add({int(p): 1.0 for p in np.flatnonzero(row)}, share, share)
    for option, times in enumerate(problem.seconds):
        work = {int(p): float(times[p]) * requests_per_s for p in np.flatnonzero(times)}
        rows.add(work | {int(column): -1.0 for column in placed[option]}, -np.inf, 0.0)
    _hold(rows, problem, topology, placed)
    # Traffic is counted in the largest amount that a path sends, as rows of billions of bytes solve badly.
    unit = max((value for of in sent.values() for value in of.values()), default=1.0) or 1.0
    for by_path, of_pair in zip(sent.values(), flows, strict=True):
        moved = {number: -value / unit for number, value in by_path.items()}
        rows.add(moved | {int(column): 1.0 for column in of_pair.ravel()}, 0.0, 0.0)
    for a, b in product(range(nodes), repeat=2):
        if sent and np.isfinite(topology.bytes_per_s[a, b]):
            room = float(topology.bytes_per_s[a, b]) / unit
            rows.add(dict.fromkeys(flows[:, a, b].tolist(), 1.0), -np.inf, room)
    return _solved(rows, problem, placed, first + flows.size)


def fewest_gpus_corrected(
    problem: CellProblem, traffic: Sequence[Sequence[Traffic]], topology: Topology, requests_per_s: float
) -> PlacedPlan | None:
    """The same with traffic where the replicas are; None: no placement serves the requests."""
    followed = _Followed(problem, len(topology.gpus), requests_per_s)
    for each, moves in zip(problem.paths, traffic, strict=True):
        followed.add(each, moves)
    rows = followed.rows
    for name, columns in followed.starts.items():
        share = problem.shares.get(name, 0.0)
        rows.add(columns, share, share)
    for (option, node), columns in followed.work.items():
        rows.add(columns | {int(followed.placed[option, node]): -1.0}, -np.inf, 0.0)
    _hold(rows, problem, topology, followed.placed)
    for (a, b), columns in followed.moved.items():
        if np.isfinite(topology.bytes_per_s[a, b]):
            rows.add(columns, -np.inf, float(topology.bytes_per_s[a, b]))
    return _solved(rows, problem, followed.placed, followed.width)


class _Followed:
    """Requests of each path at each node, in shares of all requests, and what they ask of nodes and links."""

    def __init__(self, problem: CellProblem, nodes: int, requests_per_s: float) -> None:
        self.rows = _Rows()
        self.placed = np.arange(len(problem.options) * nodes).reshape(-1, nodes)
        self.width = self.placed.size
        self.work: defaultdict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        """(option, node) → seconds that each variable takes there."""
        self.moved: defaultdict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        """(node, node) → bytes that each variable sends."""
        self.starts: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """Request type → variables of the first visits of its paths."""
        self._place = {option.name: number for number, option in enumerate(problem.options)}
        self._nodes, self._requests_per_s = nodes, requests_per_s

    def add(self, each: TimedPath, moves: Sequence[Traffic]) -> None:
        at = self._variables(len(each.path.visits))
        for number, (visit, seconds) in enumerate(zip(each.path.visits, each.seconds, strict=True)):
            for node in range(self._nodes):
                self.work[self._place[visit.option], node][int(at[number, node])] = seconds * self._requests_per_s
            if number:  # each visit sees all requests of the path
                self.rows.add(dict.fromkeys(at[number].tolist(), 1.0) | dict.fromkeys(at[0].tolist(), -1.0), 0.0, 0.0)
        self.starts[each.request_type] |= dict.fromkeys(at[0].tolist(), 1.0)
        for move in moves:
            goes = self._variables(self._nodes)
            for node in range(self._nodes):
                leaves, arrives = goes[node].tolist(), goes[:, node].tolist()
                self.rows.add(dict.fromkeys(leaves, 1.0) | {int(at[move.source, node]): -1.0}, 0.0, 0.0)
                self.rows.add(dict.fromkeys(arrives, 1.0) | {int(at[move.target, node]): -1.0}, 0.0, 0.0)
            for a, b in product(range(self._nodes), repeat=2):
                self.moved[a, b][int(goes[a, b])] = move.bytes_per_request * self._requests_per_s

    def _variables(self, count: int) -> NDArray[np.int64]:
        """(count, nodes) numbers of new variables."""
        new = self.width + np.arange(count * self._nodes).reshape(count, self._nodes)
        self.width += new.size
        return new


def _hold(rows: _Rows, problem: CellProblem, topology: Topology, placed: NDArray[np.int64]) -> None:
    """No node runs more than it has GPUs for (equation 6)."""
    for node, gpus in enumerate(topology.gpus):
        columns = {int(placed[s, node]): float(option.gpus) for s, option in enumerate(problem.options)}
        rows.add(columns, -np.inf, float(gpus))


def _solved(rows: _Rows, problem: CellProblem, placed: NDArray[np.int64], width: int) -> PlacedPlan | None:
    cost, integer = np.zeros(width), np.zeros(width, dtype=bool)
    for option, columns in zip(problem.options, placed, strict=True):
        cost[columns], integer[columns] = option.gpus, True
    found = optimum(rows.program(cost, integer))
    if found is None:
        return None
    counts = {
        (option.name, node): round(float(found.x[column]))
        for option, columns in zip(problem.options, placed, strict=True)
        for node, column in enumerate(columns)
        if round(float(found.x[column]))
    }
    return PlacedPlan(counts, round(found.objective))
