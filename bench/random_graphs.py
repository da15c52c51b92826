"""Random any-to-any models with deployment options, mixes and times, for properties of the planner of cells."""

import numpy as np

from templates_lib.cells.problem import CellProblem, cell_problem
from templates_lib.executors.executor_graph import graph_of_options
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Traffic, traffic_of
from templates_lib.executors.rates import seconds_by_type
from templates_lib.graphs.component import Component, ComponentWork, EncoderSpec, Modality
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.values.work import Unit

WIDTH = 1024
NOTHING = EncoderSpec(Network(1.0, (), ()))
"""Of components that are only planned, with times that are drawn."""

Random = tuple[CellProblem, tuple[tuple[Traffic, ...], ...]]
"""A problem, and what each of its paths sends."""


def random_graph(rng: np.random.Generator, components: int) -> ModelGraph:
    """Any component may answer, and each edge forward is there or not."""
    names = [f"c{number}" for number in range(components)]
    made = tuple(Component(n, Unit.INVOCATION, NOTHING, WIDTH, WIDTH, answers=Modality.TEXT) for n in names)
    edges = [GraphEdge(a, b, WIDTH, float(rng.integers(1, 2000)), required=False)
             for i, a in enumerate(names) for b in names[i + 1 :] if rng.random() < 0.6]  # fmt: skip
    return ModelGraph("random", "", made, tuple(edges))


def random_problem(rng: np.random.Generator, most_components: int = 4, most_options: int = 7) -> Random:
    """Every component has an option of its own, so that each type has a path."""
    graph = random_graph(rng, int(rng.integers(1, most_components + 1)))
    names = [component.name for component in graph.components]
    options = {(name,): DeploymentOption((name,), int(rng.integers(1, 3))) for name in names}
    for _ in range(int(rng.integers(0, 2 * (most_options - len(names)) + 1))):
        chosen = tuple(name for name in names if rng.random() < 0.6)
        if chosen and len(options) < most_options:
            options.setdefault(chosen, DeploymentOption(chosen, int(rng.integers(1, 5))))
    draws = [frozenset(n for n in names if rng.random() < 0.7) for _ in range(int(rng.integers(1, 5)))]
    sets = list(dict.fromkeys(drawn or frozenset(names[:1]) for drawn in draws))
    types = []
    for number, (visited, share) in enumerate(zip(sets, rng.dirichlet(np.ones(len(sets))), strict=True)):
        work = {name: ComponentWork(float(rng.uniform(0.5, 2))) for name in sorted(visited)}
        types.append(GraphRequestType(f"t{number}", work, float(share)))
    executors = graph_of_options(graph, types, list(options.values()))
    size = {name: 10 ** rng.uniform(-2, 1) for name in names}
    alone = {(name, kind.name): float(size[name] * rng.uniform(0.5, 2)) for kind in types for name in names}
    factors = {o.name: float(rng.uniform(0.7, 1.2) / o.gpus**0.9) for o in executors.options}
    problem = cell_problem(executors, types, seconds_by_type(executors, alone, factors))
    by_name = {kind.name: kind for kind in types}
    traffic = tuple(traffic_of(graph, by_name[each.request_type], each.path) for each in problem.paths)
    return problem, traffic
