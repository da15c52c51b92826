"""Specs of fleets of any-to-any models for benches."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.graph_allocation import joined_library
from control.planning.graph_sources import cell_source, executor_source
from control.planning.recipe import CellRecipe, ExecutorRecipe
from control.planning.world import World, read_world
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.objective import NEEDED
from templates_lib.graphs.request_type import Lengths, answer_of, possible_types, request_type
from templates_lib.sources.graph_source import GraphTemplateSource
from templates_lib.values.library import Library

RELAXED = {"ttft_ms": 60_000, "tpot_ms": 500, "first_audio_ms": 60_000, "real_time_factor": 4, "image_s": 300}
"""Objectives that bind nothing which anybody would call serving."""


@dataclass(frozen=True, slots=True)
class BenchType:
    name: str
    share: float
    lengths: Mapping[str, float] = field(default_factory=dict)
    workload: str = ""


def every_type(graph: str) -> list[BenchType]:
    """Every request type of a graph, all alike."""
    names = possible_types(load_graph(graph))
    return [BenchType(name, 1 / len(names)) for name in names]


def world_of_apps(
    apps: Mapping[str, Sequence[BenchType]],
    clouds: str,
    requests_per_s: float,
    slo: Mapping[str, float] = RELAXED,
) -> World:
    """A fleet of these graphs, with as many requests/s for each. `clouds`: entries of the section, as YAML. `slo`: an
    objective for each that an answer has."""
    text = ["apiVersion: medley/v1", "kind: Fleet", "name: bench", "apps:"]
    for name, types in apps.items():
        demand = f"    demand: {{requests_per_s: {requests_per_s!r}}}"
        text += [f"  - name: {name}", f"    graph: {name}", demand, "    request_types:"]
        text += [_type(name, each, slo) for each in types]
    with tempfile.TemporaryDirectory(prefix="medley-bench-") as folder:
        spec = Path(folder) / "fleet.yaml"
        spec.write_text("\n".join([*text, f"clouds: [{clouds}]"]) + "\n")
        return read_world(spec)


def sources_of(world: World) -> list[GraphTemplateSource]:
    found: list[GraphTemplateSource] = []
    for recipe in world.graphs:
        if isinstance(recipe, ExecutorRecipe):
            found.append(executor_source(recipe))
        elif isinstance(recipe, CellRecipe):
            found.append(cell_source(recipe))
    return found


def library_of_world(world: World) -> Library:
    return joined_library(sources_of(world))


def _type(graph: str, each: BenchType, objectives: Mapping[str, float]) -> str:
    made = load_graph(graph)
    kind = request_type(made, each.name, possible_types(made)[each.name], Lengths())
    slo = ", ".join(f"{name}: {objectives[name]}" for name in NEEDED[answer_of(made, kind)])
    lengths = ", ".join(f"{name}: {value!r}" for name, value in each.lengths.items())
    workload = f", workload: {each.workload}" if each.workload else ""
    return f"      - {{type: {each.name}, share: {each.share!r}, slo: {{{slo}}}, lengths: {{{lengths}}}{workload}}}"
