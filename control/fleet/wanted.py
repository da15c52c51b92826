"""What a plan wants to run, as whoever launches it needs to know it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.template import ServingTemplate

_LEGS = {"prefill": "prefill", "decode": "decode", "aggregated": "whole"}


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """`count` instances of one template in one zone and market."""

    plan_id: str
    template: ServingTemplate
    model: str
    """As the fleet calls it."""
    leg: str
    zone: str
    market: Market
    count: int
    units_per_s: float
    """Of one instance: tokens of the leg's unit, or requests of a whole one."""
    by_class: Mapping[str, float] = field(default_factory=dict)
    """The same by work class."""
    usd_per_hour: float = 0.0
    """Of one instance, by its plan."""

    @property
    def units(self) -> Mapping[str, float]:
        return self.by_class or {f"{self.model}/{self.leg}": self.units_per_s}

    @property
    def column(self) -> tuple[str, str, Market]:
        """What instances of it have in common."""
        return self.template.id, self.zone, self.market


def wanted(plan: Plan) -> tuple[Wanted, ...]:
    """Raises ValueError for a plan that does not say what its templates run, as those of baselines do not."""
    return tuple(_wanted(plan.id, planned) for planned in plan.instances if planned.count)


def _wanted(plan_id: str, planned: PlannedInstance) -> Wanted:
    if planned.placement is None or planned.software is None:
        raise ValueError(f"plan {plan_id} does not say what template {planned.template_id} runs")
    if planned.phase not in _LEGS:
        raise ValueError(f"plan {plan_id}: {planned.model} has a phase {planned.phase!r}, which no gateway routes to")
    software = planned.software
    template = ServingTemplate(
        planned.template_id,
        software.model,
        software.model_revision,
        software.dtype,
        software.engine,
        software.dispatch,
        planned.nodes,
        planned.placement,
        software.served_as,
    )
    return Wanted(
        plan_id,
        template,
        planned.model,
        _LEGS[planned.phase],
        planned.zone,
        planned.market,
        planned.count,
        sum(planned.units_per_s.values()),
        planned.units_per_s,
        planned.usd_per_hour / planned.count,
    )
