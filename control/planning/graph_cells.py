"""Cells of an any-to-any model on one kind of GPU, by estimated times."""

from collections.abc import Mapping
from dataclasses import dataclass

from templates_lib.cells.cell import Cell, efficient, plan_cells
from templates_lib.cells.network_design import CellPlan
from templates_lib.cells.problem import CellProblem, cell_problem
from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.executors.estimate import TENSOR_PARALLEL, Estimate, neighbours
from templates_lib.executors.executor_graph import graph_of_options
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import GraphRequestType, Lengths, possible_types, request_type
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.nearest_name import nearest_name

LARGEST = 64


@dataclass(frozen=True, slots=True)
class GraphCells:
    types: tuple[GraphRequestType, ...]
    problem: CellProblem
    plans: tuple[CellPlan, ...]
    """The best of 1, 2, 4 ... GPUs."""
    efficient: tuple[Cell, ...]
    refused: Mapping[str, str]
    """Components that are not deployed together → why."""


def cells_of(
    graph: ModelGraph, gpu: str, largest: int, mix: Mapping[str, float], lengths: Lengths | None = None
) -> GraphCells:
    """Plan the cells of `graph` up to `largest` GPUs of a kind, with the links between them that clouds sell.

    `mix`: request type → share; all types alike where it is empty. Raises ValueError for an unknown type, shares that
    do not add up to 1, or a component that no number of these GPUs holds; LookupError for an unknown GPU.
    """
    if not 1 <= largest <= LARGEST:
        raise ValueError(f"cells of {largest} GPUs are not planned: say 1 to {LARGEST}")
    possible = possible_types(graph)
    for name in mix:
        if name not in possible:
            raise ValueError(f"{graph.id} has no request type {name!r}; {nearest_name(name, possible)}")
    shares = mix or {name: 1 / len(possible) for name in possible}
    given = lengths or Lengths()
    types = tuple(request_type(graph, name, possible[name], given, share) for name, share in shares.items())
    costs = EstimatedComponentCost(estimated_cost_model(load_gpus()))
    nodes = {gpus: node_config_from_id(f"{gpu}:{gpus}/n100") for gpus in TENSOR_PARALLEL}
    estimate = Estimate(graph, types, nodes.__getitem__, costs)
    options, refused = estimate.options(neighbours(graph, (kind.components for kind in types)))
    for component in sorted(frozenset().union(*(kind.components for kind in types))):
        if component in refused:
            raise ValueError(f"{graph.id}: component {component!r}: {refused[component]}; plan it on a larger GPU")
    executors = graph_of_options(graph, types, options)
    problem = cell_problem(executors, types, estimate.seconds(executors))
    plans = plan_cells(problem, largest)
    return GraphCells(types, problem, plans, efficient([plan.requests_per_s for plan in plans]), refused)
