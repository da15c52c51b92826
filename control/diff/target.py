"""Targets: the instances that a plan wants of each column."""

from collections.abc import Mapping
from dataclasses import dataclass

from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.template import ServingTemplate

Column = tuple[str, str, Market]
"""(template id, zone id, market): what equal instances have in common."""


@dataclass(frozen=True, slots=True)
class Target:
    """`count` instances of one template in one zone and market."""

    plan_id: str
    model: str
    """Name by which the fleet calls it."""
    template: ServingTemplate
    zone: str
    market: Market
    count: int
    units_per_s: Mapping[str, float]
    """Capacity of one instance, by work class."""
    usd_per_hour: float
    """Rent of one instance and its disks, by its plan."""
    disk_gib: int = 0
    """Disk of each of its nodes, as its plan is charged for it; 0: it is not."""

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted(self.units_per_s))

    @property
    def template_id(self) -> str:
        return self.template.id

    @property
    def nodes(self) -> Mapping[str, int]:
        """Nodes of one instance: node configuration → how many."""
        return self.template.nodes

    @property
    def column(self) -> Column:
        return self.template.id, self.zone, self.market


def targets(plan: Plan) -> tuple[Target, ...]:
    """A column each. Raises ValueError for a plan that lists a column twice, or does not say what its templates run, as
    those of baselines do not."""
    found = tuple(_target(plan.id, planned) for planned in plan.instances if planned.count > 0)
    if len({t.column for t in found}) < len(found):
        raise ValueError(f"plan {plan.id} lists a template twice in one zone and market")
    return found


def _target(plan_id: str, planned: PlannedInstance) -> Target:
    if planned.placement is None or planned.software is None:
        raise ValueError(f"plan {plan_id} does not say what template {planned.template_id} runs")
    software = planned.software
    template = ServingTemplate(
        planned.template_id, software.model, software.model_revision, software.dtype, software.engine,
        software.dispatch, planned.nodes, planned.placement, software.served_as,
    )  # fmt: skip
    return Target(
        plan_id, planned.model, template, planned.zone, planned.market, planned.count, planned.units_per_s,
        planned.usd_per_hour / planned.count, planned.disk_gib,
    )  # fmt: skip
