"""Pools of instances drawn at random from the libraries of the set-ups: prefill instances before decode instances.

A pool is of one model with its own workload and objectives: 1-12 prefill instances of 1-3 kinds, each a template of one
node or two with its own step times, and decode instances for 1.5 to 3 times as many requests, or for plenty.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.rated_sets import pipeline_recipe
from bench.scenarios import SetUp
from control.planning.recipe import Recipe
from control.planning.templates import Templates
from control.simulator.serving.fleet_timeline import InstanceLife
from control.simulator.serving.plan_timeline import RecipeStations, planned_instances
from templates_lib.apps.served_model import ServedModel
from templates_lib.values.library import Library
from templates_lib.values.offer import Market
from templates_lib.values.plan import Flow, Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Phase

MOST_REPLICAS, MOST_KINDS, MOST_NODES = 12, 3, 2
UTILISATION = (0.3, 0.95)
AMPLE = 3.0
"""Times the requests of the prefill instances that decode instances are there for where gaps are not looked at."""
ZONE = "here"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    number: int
    served: ServedModel
    plan: Plan
    """With placements; at the planned utilisation."""
    capacity_rps: float
    """Requests per second that its prefill instances are certified for."""
    utilisation: float
    has_gaps: bool
    """Whether decode is scarce enough to be looked at."""

    @property
    def rps(self) -> float:
        return self.utilisation * self.capacity_rps

    @property
    def text(self) -> str:
        of = [each for each in self.plan.instances if each.phase == Phase.PREFILL.value]
        kinds = " + ".join(f"{each.count} x ({' '.join(f'{n} {c}' for c, n in each.nodes.items())})" for each in of)
        return f"{self.served.name}: {kinds}{', decode' if self.has_gaps else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """Templates of a work class that a pool may have."""

    rows: NDArray[np.int64]
    units_per_s: NDArray[np.float64]
    """(templates of the library,)"""


class Pools:
    """Draws pools from the libraries of set-ups; each is known by its number and the seed alone."""

    def __init__(self, setups: list[SetUp], seed: int) -> None:
        self._seed = seed
        self._served = [(made, each) for made in setups for each in pipeline_recipe(made).served]
        self._kinds = {
            (made.name, each.name, phase): _kinds(made.templates.library, each.class_id(phase))
            for made, each in self._served
            for phase in each.phases
        }
        self._usd = {made.name: _usd_per_hour(made.snapshot) for made in setups}
        self._stations = {made.name: RecipeStations(_recipe(made), made.snapshot.routes) for made in setups}

    def draw(self, number: int) -> tuple[Pool, SetUp]:
        """Return a pool, and the set-up that its templates are of."""
        draw = np.random.default_rng((self._seed, number))
        made, served = self._served[int(draw.integers(len(self._served)))]
        replicas = int(draw.integers(1, MOST_REPLICAS + 1))
        prefill = self._drawn(draw, made, served, Phase.PREFILL, replicas)
        capacity = _capacity(prefill) / served.shape.mean_prompt_tokens
        has_gaps, most = bool(draw.integers(2)), float(draw.uniform(1.5, 3.0))
        wanted = (most if has_gaps else AMPLE) * capacity * served.shape.mean_output_tokens
        decode = self._drawn(draw, made, served, Phase.DECODE, 1)
        for each in self._drawn(draw, made, served, Phase.DECODE, int(draw.integers(2))):
            decode += [each] if each.template_id not in {one.template_id for one in decode} else []
        times = max(1, round(wanted / _capacity(decode)))
        decode = [replace(each, count=times, usd_per_hour=each.usd_per_hour * times) for each in decode]
        utilisation = float(draw.uniform(*UTILISATION))
        plan = _plan(made.templates, served, [*prefill, *decode], utilisation * capacity, number)
        return Pool(number, served, plan, capacity, utilisation, has_gaps), made

    def lives(self, pool: Pool, made: SetUp) -> tuple[InstanceLife, ...]:
        stations = self._stations[made.name]
        return tuple(life for name, wanted in planned_instances(pool.plan) for life in stations.lives(name, wanted))

    def stations(self, made: SetUp) -> RecipeStations:
        return self._stations[made.name]

    def _drawn(
        self, draw: np.random.Generator, made: SetUp, served: ServedModel, phase: Phase, replicas: int
    ) -> list[PlannedInstance]:
        kinds, library = self._kinds[made.name, served.name, phase], made.templates.library
        if replicas == 0:
            return []
        unlike = min(int(draw.integers(1, MOST_KINDS + 1)), replicas, len(kinds.rows))
        rows = draw.choice(kinds.rows, unlike, replace=False)
        more = draw.multinomial(replicas - unlike, np.full(unlike, 1 / unlike))
        found = []
        for row, count in zip(rows.tolist(), (1 + more).tolist(), strict=True):
            held = dict(zip(library.configs, library.nodes[row].tolist(), strict=True))
            nodes = {config: count for config, count in held.items() if count}
            usd = count * sum(self._usd[made.name][config] * n for config, n in nodes.items())
            units = {served.class_id(phase): float(kinds.units_per_s[row])}
            what = library.template_id(row), served.name, phase.value, ZONE, Market.ON_DEMAND, count, 0, nodes
            found.append(PlannedInstance(*what, units, usd))
        return found


def _plan(templates: Templates, served: ServedModel, instances: list[PlannedInstance], rps: float, number: int) -> Plan:
    flow = Flow(served.routes()[0].id, (ZONE, ZONE), rps, 0.0)
    usd = sum(each.usd_per_hour for each in instances)
    what = f"pool-{number}", "", templates.library.version, "random", tuple(instances), (), (flow,)
    plan = Plan(*what, usd, usd, 0.0, 0.0, 0.0, {}, usd, usd, 0.0, 0.0, "feasible")
    return templates.placed(plan)[0]


def _recipe(made: SetUp) -> Recipe:
    recipe = made.recording.recipe
    assert isinstance(recipe, Recipe)
    return recipe


def _kinds(library: Library, work_class: str) -> _Kinds:
    number = [each.id for each in library.classes].index(work_class)
    units = np.zeros(library.size)
    own = library.entry_class == number
    np.maximum.at(units, library.point_template[library.entry_point[own]], library.entry_units_per_s[own])
    few = library.nodes.sum(axis=1) <= MOST_NODES
    return _Kinds(np.flatnonzero((units > 0) & few), units)


def _capacity(instances: list[PlannedInstance]) -> float:
    return sum(each.count * sum(each.units_per_s.values()) for each in instances)


def _usd_per_hour(snapshot: Snapshot) -> dict[str, float]:
    """Node configuration → its least price."""
    found: dict[str, float] = {}
    for offer in snapshot.offers:
        found[offer.node_config] = min(found.get(offer.node_config, np.inf), offer.usd_per_hour)
    return found
