"""History of a simulated fleet: lives of its nodes and instances, what routed to them, and what they cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from control.diff.target import Target
from control.executor.nodes import INSTANCE_TAG
from control.lifecycle.event import EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from control.planning.recipe import PipelineRecipe, Recipe
from control.simulator.log_cloud import LogCloud, NodeLife
from control.simulator.plane_log import PlaneLog, PlanMade
from control.simulator.result import InstanceSpan, NodeSpan, SimulationEvent
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.plan_timeline import RecipeStations
from policies.routing_table import RoutedModel
from templates_lib.values.hardware import node_config_from_id


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds; None: it did not come to that."""

    requested_s: float
    ready_s: float | None
    drain_s: float | None
    failed_s: float | None


class FleetHistory:
    """The history of one run that has ended at `length_s`."""

    def __init__(self, log: PlaneLog, clouds: Mapping[str, LogCloud], recipe: PipelineRecipe, length_s: float) -> None:
        self._log, self._clouds, self._recipe, self._length_s = log, clouds, recipe, length_s
        self._lives = {name: cloud.lives() for name, cloud in sorted(clouds.items())}
        self._times = _times(log.steps)
        self._gone_s: dict[str, float] = {}
        """Instance → when the first of its nodes ended."""
        for life in (life for lives in self._lives.values() for life in lives):
            name = life.node.tags[INSTANCE_TAG]
            self._gone_s[name] = min(self._gone_s.get(name, inf), life.until_s)

    @property
    def plans(self) -> Sequence[PlanMade]:
        return self._log.plans

    def spent_usd(self, from_s: float, until_s: float) -> float:
        return sum(cloud.spent_between_usd(from_s, until_s) for cloud in self._clouds.values())

    def nodes(self) -> tuple[NodeSpan, ...]:
        """Return what was paid for between 0 and the end."""
        return tuple(
            self._node(cloud, life)
            for cloud, lives in self._lives.items()
            for life in lives
            if life.until_s > 0 and life.from_s < self._length_s
        )

    def instances(self) -> tuple[InstanceSpan, ...]:
        """Return instances that were there between 0 and the end, by the time that they were asked for."""
        spans = (self._instance(name, times) for name, times in self._times.items())
        there = (span for span in spans if span is not None and (span.gone_s is None or span.gone_s > 0))
        return tuple(sorted(there, key=lambda span: (span.requested_s, span.id)))

    def timeline(self) -> FleetTimeline:
        stations = RecipeStations(Recipe((self._recipe,)), ())
        lives: dict[str, InstanceLife] = {}
        for name, times in sorted(self._times.items()):
            wanted = self._log.wanted.get(name)
            gone_s = self._gone(name)
            if wanted is None or times.ready_s is None or gone_s <= max(times.ready_s, 0.0):
                continue
            ready_s = max(times.ready_s, 0.0)
            drain_s = inf if times.drain_s is None else max(times.drain_s, ready_s)
            drain_s = min(drain_s, gone_s) if drain_s < inf else inf
            for life in stations.lives(name, wanted):
                lives[life.id] = replace(life, ready_s=ready_s, drain_s=drain_s, gone_s=gone_s)
        tables = tuple(self._tables(lives))
        return FleetTimeline(tuple(lives.values()), tables, self._length_s, stations.mean_output_tokens)

    def events(self) -> tuple[SimulationEvent, ...]:
        log = self._log
        found = [
            SimulationEvent(at_s, f"instance.{step.to_state.value}", step.instance_id, step.reason)
            for at_s, step in log.steps
        ]
        found += [plan.event for plan in log.plans]
        found += [SimulationEvent(at_s, "fleet.trouble", "", text) for at_s, text in log.troubles if text]
        for name, cloud in sorted(self._clouds.items()):
            found += [SimulationEvent(at_s, "node.taken", node, f"{name} took it back") for at_s, node in cloud.taken]
        return tuple(sorted(found, key=lambda event: event.at_s))

    def _node(self, cloud: str, life: NodeLife) -> NodeSpan:
        of, usd = life.offer, self._clouds[cloud].cost_usd(life, self._length_s)
        what = life.node.name, life.node.tags[INSTANCE_TAG], of.key, of.node_config, of.zone_id, of.market.value
        return NodeSpan(*what, max(life.from_s, 0.0), min(life.until_s, self._length_s), usd)

    def _instance(self, name: str, times: _Times) -> InstanceSpan | None:
        wanted = self._log.wanted.get(name)
        if wanted is None:
            return None
        gone_s = self._gone(name) if name in self._gone_s else times.failed_s
        later_s = times.ready_s, times.drain_s, None if gone_s == inf else gone_s
        return instance_span(name, wanted, times.requested_s, *later_s)

    def _gone(self, name: str) -> float:
        """Return when it was no more: with its first node, or when it failed."""
        failed_s = self._times[name].failed_s
        return min(self._gone_s.get(name, inf), inf if failed_s is None else failed_s)

    def _tables(self, lives: Mapping[str, InstanceLife]) -> Iterator[tuple[float, tuple[RoutedModel, ...]]]:
        """Yield the tables from 0 on, of what is in the timeline."""
        before = [table for table in self._log.tables if table[0] <= 0][-1:]
        for at_s, models in [*before, *(table for table in self._log.tables if table[0] > 0)]:
            yield (
                max(at_s, 0.0),
                tuple(replace(model, members=tuple(i for i in model.members if i.id in lives)) for model in models),
            )


def _times(steps: Iterable[tuple[float, PastTransition]]) -> dict[str, _Times]:
    found: dict[str, _Times] = {}
    for at_s, step in steps:
        known = found.setdefault(step.instance_id, _Times(at_s, None, None, None))
        if step.to_state is InstanceState.READY:
            known = replace(known, ready_s=at_s)
        elif step.event is EventKind.DRAIN:
            known = replace(known, drain_s=at_s)
        elif step.to_state is InstanceState.FAILED:
            known = replace(known, failed_s=at_s)
        found[step.instance_id] = known
    return found


def instance_span(name: str, wanted: Target, requested_s: float, *later_s: float | None) -> InstanceSpan:
    """`later_s`: when it was ready, drained and gone."""
    phases, nodes = dict.fromkeys(of.rpartition("/")[2] for of in wanted.classes), wanted.template.nodes
    gpus = sum(count * node_config_from_id(config).gpu_count for config, count in nodes.items())
    what = wanted.model, "+".join(phases), wanted.template.id, wanted.zone, wanted.market.value
    return InstanceSpan(name, *what, dict(nodes), gpus, requested_s, *later_s)
