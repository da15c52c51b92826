"""Whether plans keep what they promise: each is simulated at the rates that it was made for."""

import os
from collections.abc import Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from agents.messages.to_scheduler import Leg
from control.planning.graph_sources import executor_source
from control.planning.recipe import ExecutorRecipe, GraphRecipe, PipelineRecipe, Recipe, UnitRecipe
from control.planning.templates import Templates
from control.simulator.app_attainment import app_attained
from control.simulator.report.fate import judge
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.plan_timeline import RecipeStations, planned_instances
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from policies.routing import BY_SLACK
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.served_model import ServedModel
from templates_lib.values.plan import Attained, Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Phase, Route

REQUESTS, FEWEST = 24_000, 2_000
"""Requests of each model that certificates of percentile 99 count: that share is then known to 0.06 points (one
standard error). Lower percentiles count fewer, down to the second number, so that what may be late is known as well in
proportion: of 95, to 0.32 points of 5."""
MOST_BURSTS = 4.0
"""Bursts make shares vary as if fewer requests had come: more of them are counted, by the square of the gaps' cv, up to
this factor."""
WARM_UP = 0.05
"""Share of the simulated time whose requests are not counted."""
AFTER_S = 300.0
"""Time for the last ones to end."""
UNREFUSED = ServingSettings(admits=False)
"""What the plan cannot do would show as late, not as refused."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedAttainment:
    """Text models of a recipe whose objectives are promised, each simulated alone: they share no instance. What was
    found is kept, as plans of one search are alike in most models."""

    recipe: Recipe
    templates: Templates
    seed: int = 0
    is_even: bool = True
    """Lengths come as often as the shape has them, in random order: what is too long for a template is then as much as
    it is in the shape, and less is left to chance. Else each is drawn by itself."""
    requests: int = REQUESTS
    """Requests of each model that are counted at percentile 99."""
    _known: dict[Hashable, dict[str, Attained]] = field(default_factory=dict)
    _stations: list[RecipeStations] = field(default_factory=list)

    @property
    def classes(self) -> dict[str, bool]:
        """Work classes that are promised something: whether requests queue there before their first token."""
        text = {s.class_id(phase): phase is not Phase.DECODE for s in self._promised for phase in s.phases}
        return text | {name: True for work in self._works for name in sorted(work.promised)}

    def __call__(self, plan: Plan, snapshot: Snapshot) -> Mapping[str, Attained]:
        parts: dict[ServedModel | AppWork, Hashable] = {each: _part(each, plan) for each in self._promised}
        parts |= {work: _app_part(work, plan) for work in self._works}
        if lacking := [served for served, part in parts.items() if part not in self._known]:
            placed, _ = self.templates.placed(plan)
            if not self._stations:
                self._stations.append(RecipeStations(self.recipe, self._simulated_routes(snapshot)))
            # The kernel runs without the interpreter's lock.
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = pool.map(lambda each: self._fared(each, placed, snapshot), lacking)
                self._known.update(zip((parts[served] for served in lacking), found, strict=True))
        return {name: each for part in parts.values() for name, each in self._known[part].items()}

    def under(self, recipe: Recipe, templates: Templates) -> "SimulatedAttainment":
        return replace(self, recipe=recipe, templates=templates, _stations=[])

    def _fared(self, each: ServedModel | AppWork, placed: Plan, snapshot: Snapshot) -> dict[str, Attained]:
        if isinstance(each, AppWork):
            promised = [kind.objective.percentile for kind in each.app.types if kind.objective is not None]
            counted = self._counted(max(promised))
            return app_attained(each, placed, snapshot, counted, WARM_UP, AFTER_S, self.seed)
        return self._simulated(each, placed)

    @property
    def _works(self) -> tuple[AppWork, ...]:
        """Any-to-any models of which something is promised."""
        graphs = (source for source in self.recipe.sources if isinstance(source, ExecutorRecipe))
        return tuple(work for source in graphs for work in executor_source(source).works if work.promised)

    @property
    def _promised(self) -> tuple[ServedModel, ...]:
        text = (source for source in self.recipe.sources if isinstance(source, PipelineRecipe))
        return tuple(served for source in text for served in source.served if served.slo.queueing)

    def _simulated_routes(self, snapshot: Snapshot) -> list[Route]:
        """Leave out those of any-to-any models and of models that share nodes, which are not simulated and promise
        nothing."""
        graphs = (source for source in self.recipe.sources if isinstance(source, GraphRecipe))
        apps = {app.name for source in graphs for app in source.apps}
        units = (source for source in self.recipe.sources if isinstance(source, UnitRecipe))
        apps |= {served.name for source in units for served in source.served}
        return [route for route in snapshot.routes if route.app not in apps]

    def _counted(self, percentile: float) -> float:
        """Requests to count. The relative error of a share q of late ones among n is sqrt((1 - q) / (q n))."""
        return min(max(self.requests * percentile / (100 - percentile) / 99, FEWEST), self.requests)

    def _simulated(self, served: ServedModel, placed: Plan) -> dict[str, Attained]:
        own = {route.id for route in served.routes()}
        rate = sum(flow.requests_per_s for flow in placed.flows if flow.route in own)
        if rate <= 0:
            return {}
        counted_requests = self._counted(served.slo.percentile) * min(max(served.arrivals.cv, 1.0) ** 2, MOST_BURSTS)
        stations, length_s = self._stations[0], counted_requests / rate / (1 - WARM_UP)
        there = [each for each in planned_instances(placed) if each[1].model == served.name]
        lives = tuple(life for name, wanted in there for life in stations.lives(name, wanted))
        table = tuple(m for m in stations.routed(lives, placed, BY_SLACK) if m.id == served.name)
        means = {served.name: served.shape.mean_output_tokens}
        fleet = FleetTimeline(lives, ((0.0, table),), length_s + AFTER_S, means)
        requests = planned_requests({served.name: rate}, (served,), length_s, self.seed, is_even=self.is_even)
        result = simulate(requests, fleet, UNREFUSED)
        judged, slo = judge(requests, result, {served.name: served.slo}, fleet.length_s), served.slo
        limit_ms = slo.ttft_ms + slo.ttft_ms_per_1k_prompt_tokens * requests.prompt_tokens / 1000
        in_time = judged.ttft_ms <= limit_ms
        is_fluent = np.where(requests.output_tokens > 1, judged.tpot_ms <= slo.tpot_ms, np.isfinite(judged.ttft_ms))
        counted = requests.arrival_s >= WARM_UP * length_s
        first = np.array([life.leg == Leg.WHOLE for life in lives])[np.maximum(result.places[:, 0], 0)]
        whole = first & (result.places[:, 0] >= 0)
        if all(life.leg == Leg.WHOLE for life in lives):
            whole[:] = True  # what found no place was to go there, too
        # What is refused as late has no first token on whichever route it would have taken, and no others to be slow.
        refused = result.outcome == Outcome.REFUSED_LATE
        parts = {
            Phase.PREFILL: (counted & ~whole, in_time),
            Phase.DECODE: (counted & ~whole & ~refused, is_fluent),
            Phase.AGGREGATED: (counted & (whole | refused), in_time & is_fluent),
        }
        return {
            served.class_id(phase): Attained(float(kept[asked].mean()), slo.percentile, int(asked.sum()), self.seed)
            for phase, (asked, kept) in parts.items()
            if phase in served.phases and asked.any()
        }


def _part(served: ServedModel, plan: Plan) -> Hashable:
    """All that the outcome for one model depends on."""
    own = {route.id for route in served.routes()}
    instances = ((i.template_id, i.zone, i.count) for i in plan.instances if i.model == served.name)
    flows = ((flow.route, flow.zones, flow.requests_per_s) for flow in plan.flows if flow.route in own)
    return served.name, served.slo, served.shape.fingerprint, tuple(sorted(instances)), tuple(sorted(flows))


def _app_part(work: AppWork, plan: Plan) -> Hashable:
    """The same of an any-to-any model."""
    own, name = {route.id for route in work.routes()}, work.app.name
    instances = (
        (i.template_id, i.zone, i.count, *sorted(i.units_per_s.items())) for i in plan.instances if i.model == name
    )
    flows = ((flow.route, flow.zones, flow.requests_per_s) for flow in plan.flows if flow.route in own)
    objectives = tuple((kind.name, kind.objective) for kind in work.app.types)
    return name, objectives, tuple(sorted(instances)), tuple(sorted(flows))


def planned_requests(
    requests_per_s: Mapping[str, float],
    served: tuple[ServedModel, ...],
    length_s: float,
    seed: int,
    *,
    is_even: bool = False,
) -> Requests:
    """Draw requests as a plan expects them: arrivals at its rates, lengths of the shapes it was made for.
    `is_even`: as of `SimulatedAttainment`."""
    draw = np.random.default_rng(seed)
    columns = []
    for number, each in enumerate(served):
        rate = requests_per_s[each.name]
        times = None if each.arrivals.is_poisson else each.arrivals.times(rate, length_s, draw)
        count = int(draw.poisson(rate * length_s)) if times is None else len(times)
        lengths = len(each.shape.prompt_tokens)
        if is_even:
            pick = np.concatenate([draw.permutation(lengths) for _ in range(count // lengths + 1)])[:count]
        else:
            pick = draw.integers(lengths, size=count)
        of_each = each.shape.prompt_tokens[pick], each.shape.output_tokens[pick]
        if times is None:
            times = draw.uniform(0, length_s, count)
        columns.append((np.full(count, number), times, *of_each))
    app, arrival_s, prompt, output = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(arrival_s, kind="stable")
    return Requests(tuple(s.name for s in served), app[order], arrival_s[order], prompt[order], output[order])
