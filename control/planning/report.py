"""A plan with what it is compared with and what it rests on."""

from dataclasses import dataclass

from msgspec import UnsetType

from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.step_time_basis import StepTimeBasis

SERVED = 1e-6
"""Requests per second below which demand counts as met."""


@dataclass(frozen=True, slots=True)
class Basis:
    """Sources of the figures of a plan."""

    cost_model: str
    """`measured`, `estimated`, or which of both for what."""
    price_sources: tuple[str, ...]
    prices_observed: tuple[str, str]
    """Oldest and newest day of the prices that the plan uses; empty when it uses none."""
    derived_offers: tuple[str, ...]
    """Offers used whose size nobody sells."""
    notes: tuple[str, ...] = ()
    step_times: tuple[StepTimeBasis, ...] = ()
    """By GPU and engine of the plan, as it was made."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    name: str
    snapshot: Snapshot
    plan: Plan
    baselines: dict[str, Plan]
    basis: Basis
    broken: dict[str, tuple[str, ...]]
    """Baseline → the guardrails that it does not know and breaks; such a fleet is no alternative."""
    tokens_per_unit: dict[str, float]
    """Work class id → tokens of one unit: 1 where the unit is a token, prompt + output tokens of an invocation. Not
    there where nobody said how long an invocation is."""

    def tokens_per_s(self, instance: PlannedInstance) -> float | None:
        """Return the tokens per second of all `count` instances; None where the tokens of some work are not known."""
        if not instance.units_per_s.keys() <= self.tokens_per_unit.keys():
            return None
        return instance.count * sum(units * self.tokens_per_unit[k] for k, units in instance.units_per_s.items())

    @property
    def fleets(self) -> dict[str, Plan]:
        """The plan, as `medley`, and then its baselines."""
        return {"medley": self.plan, **self.baselines}

    @property
    def changes_fleet(self) -> bool:
        """Tell whether the fleet that runs now is another one than the plan's."""
        kept = sum(min(i.count, i.running) for i in self.plan.instances)
        planned = sum(i.count for i in self.plan.instances)
        return planned != kept or kept != len(self.snapshot.instances)

    @property
    def cheapest_complete_baseline(self) -> str | None:
        """The cheapest baseline that leaves no more demand unmet than the plan and breaks no guardrail."""
        complete = [n for n in self.baselines if not self.serves_less(n) and not self.broken.get(n)]
        return min(complete, key=lambda n: self.baselines[n].usd_per_hour) if complete else None

    def serves_less(self, baseline: str) -> bool:
        """Tell whether a baseline leaves more demand unmet than the plan."""
        ours = unmet_share(self.plan, self.snapshot)
        return unmet_share(self.baselines[baseline], self.snapshot) > ours + SERVED


def unmet_share(plan: Plan, snapshot: Snapshot) -> float:
    """Share of all requests that a plan leaves unserved, 0 to 1."""
    total = sum(d.requests_per_s for d in snapshot.demand)
    return sum(u for u in plan.unmet.values() if u > SERVED) / total if total else 0.0


def units_wanted(plan: Plan, snapshot: Snapshot) -> dict[str, float]:
    """Work class id → units per second that all the demand asks for, over the routes that the plan sends it: what is
    not served, over the first route that could."""
    routes = {route.id: route for route in snapshot.routes}
    first = {f"{route.app}/{route.request_type}": route for route in reversed(snapshot.routes)}
    sent = [(routes[flow.route], flow.requests_per_s) for flow in plan.flows]
    sent += [(first[key], rate) for key, rate in plan.unmet.items() if key in first]
    wanted: dict[str, float] = {}
    for route, rate in sent:
        for leg in route.legs:
            wanted[leg.work_class] = wanted.get(leg.work_class, 0.0) + rate * leg.units_per_request
    return wanted


def usd_per_hour_by_model(plan: Plan, snapshot: Snapshot) -> dict[str, float]:
    """Rent and disks of each model's instances, and what it pays of units that it shares, plus the traffic of its
    routes, largest first."""
    app_of = {r.id: r.app for r in snapshot.routes}
    cost: dict[str, float] = {}
    for instance in plan.instances:
        members = instance.usd_per_hour_by_member
        paid = {instance.model: instance.usd_per_hour} if isinstance(members, UnsetType) else members
        for model, usd in paid.items():
            cost[model] = cost.get(model, 0.0) + usd
    for flow in plan.flows:
        if flow.traffic_usd_per_hour:
            app = app_of[flow.route]
            cost[app] = cost.get(app, 0.0) + flow.traffic_usd_per_hour
    return dict(sorted(cost.items(), key=lambda item: -item[1]))
