"""A simulation cut into the intervals that plans are made at: what was wanted, there, and paid in each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from control.simulator.plane_log import PlanMade
from control.simulator.result import Epoch, SimulatedModel
from control.simulator.serving.fleet_timeline import InstanceLife
from control.simulator.traffic import Load, Traffic

_MADE_WITHIN_S = 10.0
"""A plan that is due at the start of an interval is made within this time."""


@dataclass(frozen=True, slots=True, eq=False)
class EpochCutter:
    """Cuts a run of `length_s` into epochs, in steps of `step_s`."""

    traffic: Traffic
    models: Sequence[SimulatedModel]
    step_s: float
    length_s: float

    def cut(
        self,
        plans: Sequence[PlanMade],
        lives: Iterable[InstanceLife],
        spent_usd: Mapping[tuple[float, float], float],
    ) -> tuple[Epoch, ...]:
        """`plans`: in the order in which they were made. `spent_usd`: by interval."""
        own = tuple(lives)
        return tuple(self._epoch(span, plans, own, spent_usd[span]) for span in self.spans())

    def spans(self) -> Iterator[tuple[float, float]]:
        for n in range(ceil(self.length_s / self.step_s - 1e-9)):
            yield n * self.step_s, min((n + 1) * self.step_s, self.length_s)

    def _epoch(
        self,
        span: tuple[float, float],
        plans: Sequence[PlanMade],
        lives: Iterable[InstanceLife],
        spent_usd: float,
    ) -> Epoch:
        from_s, until_s = span
        held = [plan for plan in plans if plan.at_s <= from_s + _MADE_WITHIN_S][-1:]
        plan = held[0] if held else None
        load = self.traffic.load(from_s, until_s)
        return Epoch(
            from_s,
            until_s,
            plan.plan_id if plan else "",
            plan.usd_per_hour if plan else 0.0,
            plan.init_usd if plan else 0.0,
            plan.traffic_usd_per_hour if plan else 0.0,
            spent_usd,
            sum(each.solve_s for each in plans if from_s <= each.at_s < until_s),
            plan.demand if plan else {},
            plan.unmet if plan else {},
            {app: of.requests / (until_s - from_s) for app, of in load.items()},
            _capacity(span, lives),
            self._demand(load, until_s - from_s),
        )

    def _demand(self, load: Mapping[str, Load], seconds: float) -> dict[str, float]:
        units: dict[str, float] = {}
        for model in self.models:
            of = load[model.name]
            for name, each in model.work_classes.items():
                came = each[0] * of.requests + each[1] * of.prompt_tokens + each[2] * of.output_tokens
                units[name] = units.get(name, 0.0) + came / seconds
        return units


def _capacity(span: tuple[float, float], lives: Iterable[InstanceLife]) -> dict[str, float]:
    """Return units per second of what took requests, in the mean, by work class."""
    from_s, until_s = span
    units: dict[str, float] = {}
    for life in lives:
        there_s = min(life.drain_s, life.gone_s, until_s) - max(life.ready_s, from_s)
        if there_s > 0:
            for work_class, per_s in life.units_per_s.items():
                units[work_class] = units.get(work_class, 0.0) + per_s * there_s / (until_s - from_s)
    return units
