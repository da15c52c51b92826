"""Random any-to-any models as apps on nodes of one kind of GPU, and the planner's problem that their allocation solves.

Work classes are shared where a component is computed alone, so an executor may do a part of what it could: the problem
has a path for every way through executors that have the classes of a route.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from bench.random_graphs import random_graph
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.graph_app import GraphApp
from templates_lib.cells.problem import CellProblem, TimedPath
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path, Visit
from templates_lib.graphs.component import Component, ComponentWork
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.ports.source import TemplateBatch, TemplateSource
from templates_lib.sources.cell_source import CellSource
from templates_lib.sources.graph_source import ExecutorSource
from templates_lib.sources.library_union import union
from templates_lib.values.library import Library
from templates_lib.values.node_config import NodeConfig

USD_PER_GPU_HOUR = 2.0
GPUS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class DrawnCosts:
    """Times that grow with the units of the work and shrink with the GPUs; everything fits everywhere."""

    seconds_a_unit: dict[str, float]
    """By component."""
    source: str = "drawn"
    fingerprint: str = "drawn"

    def seconds(self, component: Component, node: NodeConfig, work: ComponentWork, requests: float) -> float:
        return requests * self.seconds_a_unit[component.name] * work.units / node.gpu_count**0.9

    def held_bytes(self, component: Component, node: NodeConfig, work: ComponentWork) -> float:
        del component, node, work
        return 0.0

    def most_requests(self, component: Component, node: NodeConfig, work: ComponentWork, reserved: float) -> float:
        del component, node, work, reserved
        return 1.0


def node(gpus: int, network_gbps: float = 1e9) -> NodeConfig:
    """By default with a network that carries everything."""
    return NodeConfig(f"G:{gpus}", "G", gpus, 100.0, network_gbps, 1000.0)


def random_work(rng: np.random.Generator, most_components: int = 4) -> AppWork:
    """Up to four components and four request types, with sets of components that may run together."""
    graph: ModelGraph = random_graph(rng, int(rng.integers(1, most_components + 1)))
    names = [component.name for component in graph.components]
    sets = {(name,) for name in names}
    for _ in range(int(rng.integers(0, 4))):
        sets.add(graph.order(name for name in names if rng.random() < 0.6) or (names[0],))
    draws = [frozenset(n for n in names if rng.random() < 0.7) for _ in range(int(rng.integers(1, 5)))]
    visited = list(dict.fromkeys(drawn or frozenset(names[:1]) for drawn in draws))
    types = [
        GraphRequestType(
            f"t{number}", {n: ComponentWork(float(rng.uniform(0.5, 2))) for n in sorted(each)}, float(share)
        )
        for number, (each, share) in enumerate(zip(visited, rng.dirichlet(np.ones(len(visited))), strict=True))
    ]
    costs = DrawnCosts({name: float(10 ** rng.uniform(-2, 1)) for name in names})
    app = GraphApp("app", graph, tuple(types), tuple(sorted(sets)))
    return AppWork(app, [node(gpus) for gpus in GPUS], costs)


def problem_of(work: AppWork) -> CellProblem:
    """What the app's routes ask of executors, each on as many GPUs as it takes."""
    replicas = {
        (each.option.components, each.option.gpus): each
        for config in work.nodes
        for each in work.replicas(config)
        if each.option.gpus == config.gpu_count
    }
    options = {key: DeploymentOption(each.option.components, each.option.gpus) for key, each in replicas.items()}
    paths: list[TimedPath] = []
    for route in work.routes():
        able = [[key for key, each in replicas.items() if leg.work_class in each.units_per_s] for leg in route.legs]
        for keys in product(*able):
            visits = tuple(
                Visit(options[key].name, (leg.work_class,)) for key, leg in zip(keys, route.legs, strict=True)
            )
            seconds = tuple(
                leg.units_per_request / replicas[key].units_per_s[leg.work_class]
                for key, leg in zip(keys, route.legs, strict=True)
            )
            paths.append(TimedPath(route.request_type, Path(visits), seconds))
    shares = {kind.name: kind.share for kind in work.app.types}
    return CellProblem(tuple(options.values()), shares, tuple(paths))


def library_of(work: AppWork) -> Library:
    """The templates of both kinds."""
    return joined_library([ExecutorSource([work]), CellSource([work])])


def joined_library(sources: Sequence[TemplateSource]) -> Library:
    """All templates of sources whose classes are alike."""
    first, *others = map(_library, sources)
    for other in others:
        first = union(first, other)
    return first


def _library(source: TemplateSource) -> Library:
    batches: list[TemplateBatch] = list(source.build(source.units(), lambda *_: None))
    first = _empty(source)
    for batch in batches:
        own = replace(
            first,
            ids=batch.ids, nodes=batch.nodes, point_template=batch.point_template, entry_point=batch.entry_point,
            entry_class=batch.entry_class, entry_units_per_s=batch.entry_units_per_s,
            template_engine=batch.template_engine,
        )  # fmt: skip
        first = union(first, own)
    return first


def _empty(source: TemplateSource) -> Library:
    return Library(
        "library-1", "costs-1", source.configs, source.classes, np.zeros(0, "S32"),
        np.zeros((0, len(source.configs)), np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int32),
        np.zeros(0, np.int16), np.zeros(0), source.engines, np.zeros(0, np.int16),
    )  # fmt: skip
