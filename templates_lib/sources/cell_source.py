"""Cells: executors of several deployment options beside each other on the GPUs of one node (Cornserve, section 4.3).

Pairs of options are tried in every split of the node's GPUs, and what the paper's planner chooses for the mix of the
app. A cell on a node that joins others is open: it sustains what its executors do, each on its own. On a node that no
other reaches rows stay inside: the cell is closed, and serves whole requests of each type.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from templates_lib.apps.app_work import AppWork, Replica
from templates_lib.cells.network_design import most_requests
from templates_lib.cells.problem import CellProblem
from templates_lib.cells.region import Shortage, schedule_of
from templates_lib.sources.graph_record import CELL
from templates_lib.sources.graph_source import GraphTemplateSource, Point, Slotted, undominated_points, vertices
from templates_lib.values.node_config import NodeConfig

MOST_POINTS = 64
"""Vertices of a cell; one that has more is left out, and its executors can be had apart."""
Counted = tuple[tuple[Replica, int], ...]


class CellSource(GraphTemplateSource):
    """Kind `cell`."""

    kind = CELL

    def _slotted(self, work: AppWork, node: NodeConfig) -> Iterator[Slotted]:
        if node.joins_others:
            network = work.network_units_per_s(node)
            for counts in _open_counts(work, node):
                if math.prod(len(replica.units_per_s) for replica, _ in counts) <= MOST_POINTS:
                    yield Slotted(counts, vertices(counts, network))
        else:
            yield from _closed(work, node)


def _open_counts(work: AppWork, node: NodeConfig) -> Iterator[Counted]:
    """Yield executors that fill a node: of two options in each split, and those of the paper's planner."""
    replicas = _worth_their_gpus(work.replicas(node))
    for one, other in combinations(replicas, 2):
        for count in range(1, node.gpu_count // one.option.gpus + 1):
            rest = (node.gpu_count - count * one.option.gpus) // other.option.gpus
            if rest:
                yield (one, count), (other, rest)
    by_name = {replica.option.name: replica for replica in work.replicas(node)}
    for planned in _planned(work.problem(node), node.gpu_count):
        if len(planned) > 2 and planned.keys() <= by_name.keys():
            yield tuple((by_name[name], count) for name, count in planned.items())


def _worth_their_gpus(replicas: Sequence[Replica]) -> list[Replica]:
    """Leave out replicas on several GPUs that sustain no more than replicas of the same components on fewer do, on as
    many GPUs together."""

    def is_replaced(each: Replica) -> bool:
        smaller = (o for o in replicas if o.option.components == each.option.components)
        return any(
            each.option.gpus > other.option.gpus
            and each.option.gpus % other.option.gpus == 0
            and all(
                each.option.gpus // other.option.gpus * other.units_per_s.get(name, 0.0) >= rate
                for name, rate in each.units_per_s.items()
            )
            for other in smaller
        )

    return [each for each in replicas if not is_replaced(each)]


def _closed(work: AppWork, node: NodeConfig) -> Iterator[Slotted]:
    problem = work.problem(node)
    options = {option.name: option for option in problem.options} if problem else {}
    for planned in _planned(problem, node.gpu_count):
        if len(planned) < 2 or problem is None:
            continue
        replicas = tuple((work.replica(node, options[name], {}), count) for name, count in planned.items())
        if points := _boundary(work, problem, planned):
            yield Slotted(replicas, points)


def _planned(problem: CellProblem | None, gpus: int) -> Iterator[Mapping[str, int]]:
    """Yield what the paper's planner runs on the node for the mix of all types; nothing where no path is done in
    time."""
    if problem is not None and (plan := most_requests(problem, gpus)).requests_per_s > 0:
        yield plan.replicas


def _boundary(work: AppWork, problem: CellProblem, replicas: Mapping[str, int]) -> tuple[Point, ...]:
    """Points at which the cell serves no more of each type alone, of each two in equal parts of that, and of the mix:
    mixtures of them are within what it sustains."""
    names = {kind: work.whole_class(kind) for kind in problem.types}
    alone = {kind: _most(problem, replicas, {kind: 1.0}) for kind, name in names.items() if name}
    mixes: list[dict[str, float]] = [{kind: rate} for kind, rate in alone.items() if rate > 0]
    mixes += [one | other for one, other in combinations(mixes, 2)]
    if len(alone) > 2 and all(alone.values()):
        mixes.append({kind: problem.shares[kind] for kind in alone})
    found: list[Point] = []
    for mix in mixes:
        served = _most(problem, replicas, mix)
        found.append({str(names[kind]): served * rate for kind, rate in mix.items()})
    return undominated_points([point for point in found if all(rate > 0 for rate in point.values())])


def _most(problem: CellProblem, replicas: Mapping[str, int], requests_per_s: Mapping[str, float]) -> float:
    """Times these requests/s that the replicas serve."""
    busy = schedule_of(problem, replicas, requests_per_s)
    if isinstance(busy, Shortage):
        return busy.served
    # A schedule for as much says nothing of more: what is asked for is scaled until there is none.
    factor = 2.0
    while not isinstance(short := schedule_of(problem, replicas, _scaled(requests_per_s, factor)), Shortage):
        factor *= 2
    return factor * short.served


def _scaled(requests_per_s: Mapping[str, float], factor: float) -> dict[str, float]:
    return {kind: factor * rate for kind, rate in requests_per_s.items()}
