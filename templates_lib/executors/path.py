"""Valid paths: each component of a request type is computed once, none before what it takes rows from (appendix B)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from templates_lib.executors.option import CompositeTask, DeploymentOption
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import GraphRequestType


@dataclass(frozen=True, slots=True)
class Visit:
    option: str
    """Name of the deployment option."""
    components: tuple[str, ...]
    """Those that this visit computes (the paper's role of s on t and p), in the graph's order."""


@dataclass(frozen=True, slots=True)
class Path:
    visits: tuple[Visit, ...]

    @property
    def name(self) -> str:
        return " -> ".join(visit.option for visit in self.visits)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that go from one visit of a path to a later one, for each request."""

    source: int
    target: int
    bytes_per_request: float


def path_of_task(graph: ModelGraph, components: frozenset[str], task: CompositeTask) -> Path | None:
    """The path of requests that visit `components` under a composite task; None: it does not serve them.

    Each option in turn computes all that is left of its components (appendix C); those with nothing left are passed by.
    """
    visits: list[Visit] = []
    done: frozenset[str] = frozenset()
    for option in task.options:
        role = _role(graph, components, done, option)
        if role is None:
            return None
        if role:
            visits.append(Visit(option.name, role))
            done |= frozenset(role)
    return Path(tuple(visits)) if done == components else None


def every_path(graph: ModelGraph, components: frozenset[str], options: Sequence[DeploymentOption]) -> tuple[Path, ...]:
    """List each way to serve `components` with these options. Orders that compute the same in the same places are one
    way."""
    found: dict[frozenset[Visit], Path] = {}
    for visits in _extended(graph, components, options, frozenset(), ()):
        found.setdefault(frozenset(visits), Path(visits))
    return tuple(found.values())


def traffic_of(graph: ModelGraph, request_type: GraphRequestType, path: Path) -> tuple[Traffic, ...]:
    """Bytes between the visits of a path. What stays within a visit is not sent."""
    place = {name: number for number, visit in enumerate(path.visits) for name in visit.components}
    sent: dict[tuple[int, int], float] = {}
    for edge in graph.edges:
        if edge.source in place and edge.target in place and place[edge.source] != place[edge.target]:
            ends = place[edge.source], place[edge.target]
            sent[ends] = sent.get(ends, 0.0) + edge.bytes_of(request_type.work[edge.source])
    return tuple(Traffic(source, target, size) for (source, target), size in sorted(sent.items()))


def _role(
    graph: ModelGraph, components: frozenset[str], done: frozenset[str], option: DeploymentOption
) -> tuple[str, ...] | None:
    """What an option would compute next; None: one of these components takes rows that nobody has made yet."""
    role = graph.order(frozenset(option.components) & components - done)
    made = done.union(role)
    waits = (e for name in role for e in graph.sources(name) if e.source in components and e.source not in made)
    return None if any(waits) else role


def _extended(
    graph: ModelGraph,
    components: frozenset[str],
    options: Iterable[DeploymentOption],
    done: frozenset[str],
    visits: tuple[Visit, ...],
) -> Iterator[tuple[Visit, ...]]:
    if done == components:
        yield visits
        return
    for option in options:
        role = _role(graph, components, done, option)
        if role:
            visit = Visit(option.name, role)
            yield from _extended(graph, components, options, done.union(role), (*visits, visit))
