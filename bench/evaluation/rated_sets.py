"""Every node set of one work class, nothing pruned: what it serves at best and what it costs (Coral, section 4.2)."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.scenarios import SetUp
from control.planning.cost_models import cost_models_of, gpus_of
from control.planning.recipe import PipelineRecipe
from templates_lib.placement_solver.found import FoundPlacements
from templates_lib.placement_solver.search import find_placements
from templates_lib.sources.enumeration import NodeSets, node_sets
from templates_lib.sources.pipeline_source import even_budgets
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.work import Phase

TIE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class RatedSets:
    """Arrays (n,), one entry a node set that serves at all. `found` says how."""

    sets: NodeSets
    """All of them, those that serve nothing too."""
    configs: tuple[str, ...]
    found: FoundPlacements
    units_per_s: NDArray[np.float64]
    usd_per_hour: NDArray[np.float64]
    """In the cheapest zone that sells all of its nodes."""
    seconds: float
    """Of finding the placements, compiled code at hand."""

    @property
    def units_per_s_per_usd(self) -> NDArray[np.float64]:
        return self.units_per_s / self.usd_per_hour

    @property
    def kinds(self) -> NDArray[np.int64]:
        """Different GPU types in the set."""
        gpus = [config.partition(":")[0] for config in self.configs]
        counts = self.sets.counts(self.found.rows)
        of_type = [counts[:, [g == gpu for g in gpus]].any(axis=1) for gpu in sorted(set(gpus))]
        return np.sum(of_type, axis=0)

    def best(self, among: NDArray[np.bool_]) -> int:
        """The row of most units/s for the money where `among` (n,) is true; of equally good ones the smallest set."""
        rows = np.flatnonzero(among)
        efficiency = self.units_per_s_per_usd[rows]
        return int(rows[np.flatnonzero(efficiency >= efficiency.max() * (1 - TIE))[0]])

    def made_of(self, gpu: str, most_gpus: int) -> NDArray[np.bool_]:
        """(n,) sets of nodes of at most so many GPUs, all of them `gpu` (empty: any)."""
        sizes = (config.partition("/")[0].partition(":") for config in self.configs)
        other = [bool(gpu and name != gpu) or int(count) > most_gpus for name, _, count in sizes]
        return np.asarray(~self.sets.counts(self.found.rows)[:, other].any(axis=1))

    def row_of(self, nodes: dict[str, int]) -> int | None:
        """The row of exactly this set; None: it serves nothing."""
        wanted = np.array([nodes.get(config, 0) for config in self.configs])
        rows = np.flatnonzero((self.sets.counts(self.found.rows) == wanted).all(axis=1))
        return int(rows[0]) if len(rows) else None

    def nodes(self, row: int) -> dict[str, int]:
        counts = self.sets.counts(self.found.rows[row : row + 1])[0]
        return {config: int(n) for config, n in zip(self.configs, counts, strict=True) if n}

    def stages(self, row: int) -> list[tuple[int, dict[str, int]]]:
        """(layers, nodes) of each."""
        f = self.found
        mine = np.flatnonzero(f.share_template == row)
        stages: list[tuple[int, dict[str, int]]] = [(0, {}) for _ in range(int(f.stages[row]))]
        for share in mine.tolist():
            at = int(f.share_stage[share])
            held = stages[at][1] | {self.configs[int(f.share_config[share])]: int(f.share_nodes[share])}
            stages[at] = int(f.share_layers[share]), held
        return stages


def rated_sets(made: SetUp, model: str, phase: Phase, n_max: int, rho: float) -> RatedSets:
    """With the recipe of the set-up but for `n_max` and `rho`; each stage has the same share of the objective."""
    recipe = pipeline_recipe(made)
    served = next(s for s in recipe.served if s.name == model)
    gpus = gpus_of(recipe)
    bags = [frozenset(bag) for bag in recipe.zone_bags]
    budgets = even_budgets(served.slo_ms(phase), n_max)
    table = throughput_table(served, phase, recipe.nodes, gpus, cost_models_of(recipe)[served.engine], budgets)
    sets = node_sets(served.model, recipe.nodes, gpus, bags, n_max, rho)
    few = node_sets(served.model, recipe.nodes, gpus, bags, 1, rho)
    find_placements(table.units_per_s[:, :1], few, even_split=True, prune=False, advance=_silent)  # compiles
    began = time.perf_counter()
    found = find_placements(table.units_per_s, sets, even_split=True, prune=False, advance=_silent)
    seconds = time.perf_counter() - began
    configs = tuple(node.id for node in recipe.nodes)
    usd = _usd_per_hour(made, sets.counts(found.rows), configs)
    return RatedSets(sets, configs, found, found.units_per_s, usd, seconds)


def pipeline_recipe(made: SetUp) -> PipelineRecipe:
    for source in made.recording.recipe.sources if made.recording.recipe else ():
        if isinstance(source, PipelineRecipe):
            return source
    raise ValueError(f"{made.name}: its templates are not made of a recipe of pipelines")


def _usd_per_hour(made: SetUp, counts: NDArray[np.uint8], configs: tuple[str, ...]) -> NDArray[np.float64]:
    cheapest = np.full(len(counts), np.inf)
    for zone in {offer.zone_id for offer in made.snapshot.offers}:
        prices = {o.node_config: o.usd_per_hour for o in made.snapshot.offers if o.zone_id == zone}
        sold = np.array([config in prices for config in configs])
        here = counts @ np.array([prices.get(config, 0.0) for config in configs])
        cheapest = np.minimum(cheapest, np.where(counts[:, ~sold].any(axis=1), np.inf, here))
    return cheapest


def _silent(done: int) -> None:
    del done
