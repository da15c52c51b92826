"""Explanation of a plan: all that can be said of why it is as it is."""

from dataclasses import dataclass, replace

from control.explain.demand_price import demand_prices
from control.explain.limits import Limit, limits
from control.explain.networks import joined, networks_apart
from control.explain.node_saving import NodeSaving, node_estimates, node_savings
from control.explain.node_supply import node_supplies
from control.explain.runner_up import RunnerUp, costliest, runner_up
from control.explain.sharing import SharingExplained, sharing_explained
from control.explain.shortage import Shortage, shortage
from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.traffic import TrafficPrice


@dataclass(frozen=True, slots=True)
class Explanation:
    limits: tuple[Limit, ...]
    """Limits that bind; empty where demand and prices alone decide."""
    demand_usd_per_hour: dict[str, float]
    """About what one more request per second of each demand costs."""
    shortage: Shortage | None
    """Shortage that keeps demand from being met; None where all demand is met."""
    one_more_node: tuple[NodeSaving, ...]
    """Savings by kind of node, for those that are used up; the first are verified by a re-solve."""
    kinds_with_room: int
    """Other offers of which nodes are left over, within quotas."""
    kinds_without_room: int
    """Other offers of which none can be had, mostly because no quota is left for them."""
    runners_up: tuple[RunnerUp, ...]
    """The cheapest first."""
    sharing: SharingExplained | None = None
    """What shared units save; None where the fleet has none to plan with, or nobody asked by planning again."""


def explain(
    plan: Plan, snapshot: Snapshot, library: Library, solve: Solve, no_way: tuple[TrafficPrice, ...] = ()
) -> Explanation:
    """Re-solves up to eight times where all demand is met, up to eight times more where it is not, and up to four times
    more where models may share nodes.

    `plan` was made on `snapshot` with templates of `library` by `solve`. `no_way`: prices of crossings between networks
    that do not reach each other.
    """
    together = joined(snapshot, no_way)
    missing = shortage(plan, snapshot, library, solve, together)
    apart = networks_apart(plan, together, library, solve) if missing is None else None
    savings = tuple(node_savings(plan, snapshot, library, solve, tuple(missing.nodes) if missing else ()))
    others = (runner_up(plan, snapshot, library, solve, used) for used in costliest(plan))
    by_cost = tuple(sorted(others, key=lambda r: (r.unmet_requests_per_s, r.more_objective)))
    shared = sharing_explained(plan, snapshot, library, solve)
    found = replace(_explanation(plan, snapshot, missing, savings, by_cost), sharing=shared)
    return found if apart is None else replace(found, limits=(*found.limits, apart))


def explain_at_once(plan: Plan, snapshot: Snapshot) -> Explanation:
    """Explain a plan as far as its own relaxation goes. Nothing is solved again: no saving is verified, and neither
    what is missing nor the runners-up are known."""
    return _explanation(plan, snapshot, None, tuple(node_estimates(plan, snapshot)), ())


def _explanation(
    plan: Plan,
    snapshot: Snapshot,
    missing: Shortage | None,
    savings: tuple[NodeSaving, ...],
    runners_up: tuple[RunnerUp, ...],
) -> Explanation:
    listed = {saving.offer for saving in savings}
    rest = [s.has_room for s in node_supplies(plan, snapshot) if s.offer.key not in listed]
    return Explanation(
        limits=limits(plan, snapshot),
        demand_usd_per_hour=demand_prices(plan, snapshot),
        shortage=missing,
        one_more_node=savings,
        kinds_with_room=sum(rest),
        kinds_without_room=len(rest) - sum(rest),
        runners_up=runners_up,
    )
