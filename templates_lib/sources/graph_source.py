"""Templates of apps that are graphs of components: executors on the GPUs of single nodes.

A template's points are the vertices of what its executors sustain: a replica divides its time between its roles, so it
sustains mixtures of points at which it has one role alone. Where the network of a node carries less than a point sends,
the point is as much smaller. Executors of several nodes sustain no more than those of each node do together: an
instance is one node.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import msgspec
import numpy as np

from templates_lib.apps.app_work import AppWork, Replica
from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.sources.graph_record import DISPATCH, EXECUTOR, VERSION, GpuExecutor, GraphRecord
from templates_lib.values.engine_set import UNKNOWN
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.template import Software
from templates_lib.values.work import Route, WorkClass

Point = dict[str, float]
"""Work class → units per second."""
DTYPE = "bf16"
"""Of the weights of the models that are read as graphs (`graphs.component.ELEMENT_BYTES`)."""
PROCESSOR_DTYPE = "fp32"
"""The same on nodes whose processors compute, which are slow in 16 bits (`cost.component`)."""


@dataclass(frozen=True, slots=True)
class Slotted:
    """Replicas of executors on one node."""

    replicas: tuple[tuple[Replica, int], ...]
    points: tuple[Point, ...]

    @property
    def gpus(self) -> int:
        return sum(replica.option.gpus * count for replica, count in self.replicas)


class GraphTemplateSource(ABC):
    """A `TemplateSource` with one unit of work per app and node configuration.

    `unpruned`: apps (by name) whose templates are all kept: a guardrail that counts instances needs that.
    `processors`: GPUs (by name) that stand for processors.
    """

    kind: str

    def __init__(
        self,
        works: Sequence[AppWork],
        unpruned: frozenset[str] = frozenset(),
        processors: frozenset[str] = frozenset(),
    ) -> None:
        """`works`: one an app, on the same nodes and by the same costs. Raises ValueError without any."""
        if not works:
            raise ValueError("templates of graphs are made for one app or more: name some")
        self.works = tuple(works)
        self._nodes = {node.id: node for node in works[0].nodes}
        self._costs, self._unpruned, self._processors = works[0].costs, unpruned, processors
        self.configs = tuple(self._nodes)
        self.engines = tuple(sorted({work.app.engine or UNKNOWN for work in self.works}))
        self._units = {
            f"{work.app.name}/{node}": (work, self._nodes[node]) for work in self.works for node in self._nodes
        }

    @property
    def classes(self) -> tuple[WorkClass, ...]:
        return tuple(each for work in self.works for each in work.classes)

    @property
    def routes(self) -> tuple[Route, ...]:
        return tuple(route for work in self.works for route in work.routes())

    @property
    def cost_model_fingerprint(self) -> str:
        return self._costs.fingerprint

    @property
    def fingerprint(self) -> str:
        apps = [
            # What a task says goes behind, so that libraries of apps without one keep their names; so does an engine.
            (
                *(app.name, app.graph, app.types, app.together),
                *(() if app.task is None else (app.task,)),
                *((app.engine,) if app.engine else ()),
            )
            for app in (work.app for work in self.works)
        ]
        content = (
            self.kind, VERSION, apps, list(self._nodes.values()), self.cost_model_fingerprint, sorted(self._unpruned)
        )  # fmt: skip
        encoded = msgspec.json.encode(content, order="sorted", enc_hook=_plain)
        return hashlib.blake2b(encoded, digest_size=16).hexdigest()

    def units(self) -> tuple[str, ...]:
        return tuple(self._units)

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        """Raises ValueError for an unknown unit."""
        for done, unit in enumerate(units):
            if unit not in self._units:
                raise ValueError(f"no unit of work {unit!r}; {nearest_name(unit, self._units)}")
            work, node = self._units[unit]
            found = list(self._slotted(work, node))
            kept = found if work.app.name in self._unpruned else _undominated(found)
            yield self._batch(unit, work, node, kept, len(found))
            progress(unit, done + 1, len(units))

    @abstractmethod
    def _slotted(self, work: AppWork, node: NodeConfig) -> Iterator[Slotted]:
        """Yield what may run on a node."""

    def _batch(
        self, unit: str, work: AppWork, node: NodeConfig, kept: Sequence[Slotted], examined: int
    ) -> TemplateBatch:
        records = [self._record(work, node, each) for each in kept]
        position = {each.id: number for number, each in enumerate(self.classes)}
        points = [(row, point) for row, each in enumerate(kept) for point in each.points]
        entries = [(number, name, rate) for number, (_, point) in enumerate(points) for name, rate in point.items()]
        nodes = np.zeros((len(kept), len(self.configs)), dtype=np.uint8)
        nodes[:, self.configs.index(node.id)] = 1
        return TemplateBatch(
            unit=unit,
            sets=1,
            templates=examined,
            ids=np.array([each.template({node.id: 1}).id.encode() for each in records], dtype="S32"),
            nodes=nodes,
            point_template=np.array([row for row, _ in points], dtype=np.int32),
            entry_point=np.array([number for number, _, _ in entries], dtype=np.int32),
            entry_class=np.array([position[name] for _, name, _ in entries], dtype=np.int16),
            entry_units_per_s=np.array([rate for _, _, rate in entries], dtype=np.float64),
            template_engine=np.full(len(kept), self.engines.index(work.app.engine or UNKNOWN), dtype=np.int16),
            records=tuple(msgspec.msgpack.encode(each) for each in records),
        )

    def _record(self, work: AppWork, node: NodeConfig, slotted: Slotted) -> GraphRecord:
        app, graph = work.app, work.app.graph
        served_as = app.name if app.name != graph.id else ""
        dtype = PROCESSOR_DTYPE if node.gpu in self._processors else DTYPE
        software = Software(graph.id, graph.revision, dtype, app.engine, DISPATCH, served_as)
        executors, points = _on_devices(slotted.replicas), slotted.points
        return GraphRecord(self.kind, software, work.shape_id, self.cost_model_fingerprint, executors, points)


class ExecutorSource(GraphTemplateSource):
    """Kind `executor`: replicas of one deployment option fill a node."""

    kind = EXECUTOR

    def _slotted(self, work: AppWork, node: NodeConfig) -> Iterator[Slotted]:
        network = work.network_units_per_s(node)
        for replica in work.replicas(node):
            count = node.gpu_count // replica.option.gpus
            yield Slotted(((replica, count),), vertices(((replica, count),), network))


def _on_devices(replicas: Sequence[tuple[Replica, int]]) -> tuple[GpuExecutor, ...]:
    """Give each replica devices of its own, in order."""
    found, first = list[GpuExecutor](), 0
    for replica, count in replicas:
        gpus = replica.option.gpus
        devices = tuple(tuple(range(start, start + gpus)) for start in range(first, first + count * gpus, gpus))
        found.append(GpuExecutor(replica.option.components, gpus, devices, dict(replica.together)))
        first += count * gpus
    return tuple(found)


def vertices(replicas: Sequence[tuple[Replica, int]], network: Mapping[str, float]) -> tuple[Point, ...]:
    """The points at which each executor has one role alone, within what the network of the node carries."""
    points: list[Point] = []
    for roles in product(*(replica.units_per_s for replica, _ in replicas)):
        point: Point = {}
        for (replica, count), name in zip(replicas, roles, strict=True):
            point[name] = point.get(name, 0.0) + count * replica.units_per_s[name]
        sent = sum(rate / network[name] for name, rate in point.items() if name in network)
        points.append({name: rate / max(sent, 1.0) for name, rate in point.items()})
    return tuple(points)


def undominated_points(points: Sequence[Point]) -> tuple[Point, ...]:
    """Leave out points that are no larger than another in any class."""
    return tuple(each for number, each in enumerate(points) if not _is_below_another(number, points))


def _is_below_another(number: int, points: Sequence[Point]) -> bool:
    """Tell whether another point is no smaller in any class; of equal ones the first stays."""
    return any(
        _is_within(points[number], other) and (place < number or not _is_within(other, points[number]))
        for place, other in enumerate(points)
        if place != number
    )


def _is_within(point: Point, other: Point) -> bool:
    return all(other.get(name, 0.0) >= rate for name, rate in point.items())


def _undominated(found: Sequence[Slotted]) -> list[Slotted]:
    """Leave out what sustains no more than another on the same node at each of its points: whatever the prices, no plan
    needs it. Of those that sustain the same, the one on fewer GPUs stays."""
    ordered = sorted(found, key=lambda each: each.gpus)
    names = sorted({name for each in ordered for point in each.points for name in point})
    most = np.array(
        [[max(point.get(name, 0.0) for point in each.points) for name in names] for each in ordered]
    ).reshape(len(ordered), len(names))
    dropped: set[int] = set()
    for number, each in enumerate(ordered):
        for other in np.flatnonzero((most >= most[number]).all(axis=1)).tolist():
            if other in dropped or other == number or not _is_region_within(each, ordered[other]):
                continue
            if other < number or not _is_region_within(ordered[other], each):
                dropped.add(number)
                break
    return [each for number, each in enumerate(ordered) if number not in dropped]


def _is_region_within(one: Slotted, other: Slotted) -> bool:
    return all(any(_is_within(point, larger) for larger in other.points) for point in one.points)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot fingerprint a {type(value).__name__}")
