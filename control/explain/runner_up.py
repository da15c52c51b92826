"""Runners-up of a plan: the best plans without what this one spends most on."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot

TRIED = 3
"""Templates left out, one at a time: those that the plan spends most on."""


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The cheapest plan over the templates of the library without one that the plan uses."""

    without: str
    """Template id."""
    model: str
    phase: str
    nodes: dict[str, int]
    """Nodes of the template left out."""
    usd_per_hour: float
    more_usd_per_hour: float
    """Dollars an hour more than the plan; within the gaps of both it may be 0 or less."""
    more_objective: float
    """The same with initialisation and spot risk: what the plan was chosen by."""
    unmet_requests_per_s: float
    """Demand that it leaves unserved beyond what the plan does."""
    gives_up: tuple[str, ...]
    """Instances of the plan that it does without."""
    takes: tuple[str, ...]
    """Instances that it has instead."""


def costliest(plan: Plan) -> tuple[PlannedInstance, ...]:
    """One instance of each of the `TRIED` templates that the plan spends most on."""
    cost: dict[str, float] = {}
    for instance in plan.instances:
        cost[instance.template_id] = cost.get(instance.template_id, 0.0) + instance.usd_per_hour
    one = {i.template_id: i for i in plan.instances}
    return tuple(one[name] for name in sorted(cost, key=lambda name: (-cost[name], name))[:TRIED])


def runner_up(plan: Plan, snapshot: Snapshot, library: Library, solve: Solve, without: PlannedInstance) -> RunnerUp:
    other = solve(snapshot, library.select(library.ids != np.bytes_(without.template_id.encode())))
    ours, theirs = _counts(plan.instances), _counts(other.instances)
    return RunnerUp(
        without=without.template_id,
        model=without.model,
        phase=without.phase,
        nodes=without.nodes,
        usd_per_hour=other.usd_per_hour,
        more_usd_per_hour=other.usd_per_hour - plan.usd_per_hour,
        more_objective=other.objective - plan.objective,
        unmet_requests_per_s=max(0.0, sum(other.unmet.values()) - sum(plan.unmet.values())),
        gives_up=_listed(ours - theirs),
        takes=_listed(theirs - ours),
    )


def _counts(instances: Iterable[PlannedInstance]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for i in instances:
        counts[f"{i.model}/{i.phase} on {bag(i.nodes)} in {i.zone or 'any zone'} ({i.market.value})"] += i.count
    return counts


def _listed(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(name if n == 1 else f"{n} times {name}" for name, n in sorted(counts.items()))


def bag(nodes: dict[str, int]) -> str:
    """`2 x L40S:1/n10 + 1 x L4:2/n10`."""
    return " + ".join(f"{n} x {config}" for config, n in nodes.items())
