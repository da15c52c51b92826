"""The churn guard: of a new plan, only what pays for its own disturbance is carried out.

A solve weighs what a new instance costs before it serves (start-up) against the savings of an adjustment interval, and
so re-mixes a fleet for every small change of demand or price. The guard asks again among what is at hand, the templates
that run and those of the new plan, with the whole cost of a move (start-up, and the old instance that drains beside
it) against the savings of a horizon that a move must pay back within. It asks the same solver under the same
demand, supply and guardrails, so that nothing that is needed for demand, priorities, a budget or a lost offer is ever
refused: unmet demand comes first there too.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from templates_lib.library import Library
from templates_lib.offer import Market
from templates_lib.plan import Plan, Reason
from templates_lib.snapshot import Snapshot
from templates_lib.solve import Solve

_UNMET = 1e-6
"""Requests per second that are rounding."""

_MORE_THAN_ANYTHING_SAVES = 100.0

Column = tuple[str, str, Market]


@dataclass(frozen=True, slots=True)
class Payback:
    """What a move costs beside its start-up, and how soon it must have saved that."""

    horizon_minutes: float = 15.0
    """Prices, demand and what a spot market gives change before long: savings beyond this are not counted."""
    overlap_minutes: float = 4.0
    """For which the old instance drains, paid, after the new one serves."""
    moves_left: int | None = None
    """Instances that may still be moved to save money, of those that may be within an hour; None: any number. With
    none left only what is needed is begun: where a cheap offer comes and goes, a move to it always seems to pay."""

    def factor(self, startup_minutes: float) -> float:
        """What a new instance costs, as a share of its rent over the horizon."""
        if self.moves_left == 0:
            return _MORE_THAN_ANYTHING_SAVES
        return (startup_minutes + self.overlap_minutes) / self.horizon_minutes

    def start_usd(self, usd_per_hour: float, startup_minutes: float) -> float:
        """What it costs to start instances of that rent."""
        return usd_per_hour * (startup_minutes + self.overlap_minutes) / 60


def guard(snapshot: Snapshot, library: Library, new: Plan, solve: Solve, payback: Payback | None = None) -> Plan:
    """What to hold the fleet to instead of `new`, which was solved on `snapshot` and `library`: itself, or a plan with
    fewer moves, with reasons of kind `churn` that say what was left out and why.

    It leaves no more demand unmet. By rent, traffic, spot risk and the cost of its moves it is no dearer over the
    horizon than `new`, nor (within the solver's gap) than keeping what runs where that serves as much.
    """
    running = Counter((i.template_id, i.zone, i.market) for i in snapshot.staying())
    if not running or _counts(new) == running:
        return new
    rule = payback or Payback()
    factor = rule.factor(snapshot.settings.startup_minutes)
    stay = _solved(_unsellable(snapshot), library, {name for name, _, _ in running}, solve, factor)
    known = {name for name, _, _ in running} | {i.template_id for i in new.instances}
    fewer = _solved(snapshot, library, known, solve, factor)
    best, cost = new, _cost(new, factor)
    if _serves(fewer, new, snapshot) and _cost(fewer, factor) < cost:
        best, cost = fewer, _cost(fewer, factor)
    # Within what the solver may be off, to stand still is best.
    if _serves(stay, new, snapshot) and _cost(stay, factor) <= cost * (1 + snapshot.settings.limits.gap):
        best = stay
    if _counts(best) == _counts(new):
        return new
    return _finished(best, new, snapshot, _reasons(best, new, running, rule, snapshot.settings.startup_minutes))


def _solved(snapshot: Snapshot, library: Library, templates: set[str], solve: Solve, factor: float) -> Plan:
    keep = np.isin(library.ids, np.array([name.encode() for name in sorted(templates)], dtype=library.ids.dtype))
    settings = replace(snapshot.settings, startup_minutes=factor, adjustment_interval_minutes=1.0)
    return solve(replace(snapshot, settings=settings), library.select(keep))


def _unsellable(snapshot: Snapshot) -> Snapshot:
    """Nothing but what is held."""
    return replace(snapshot, offers=tuple(replace(offer, available_count=0) for offer in snapshot.offers))


def _counts(plan: Plan) -> Counter[Column]:
    return Counter({(i.template_id, i.zone, i.market): i.count for i in plan.instances if i.count})


def _cost(plan: Plan, factor: float) -> float:
    """$ per hour over the horizon."""
    return plan.usd_per_hour + plan.spot_risk_usd_per_hour + factor * _new_usd_per_hour(plan)


def _new_usd_per_hour(plan: Plan) -> float:
    """Rent of what does not run yet."""
    return sum(i.usd_per_hour / i.count * max(i.count - i.running, 0) for i in plan.instances if i.count)


def _serves(plan: Plan, new: Plan, snapshot: Snapshot) -> bool:
    """Whether it leaves no more unmet of any priority and all above it."""
    priorities = {demand.key: demand.priority for demand in snapshot.demand}

    def unmet(of: Plan, least: int) -> float:
        return sum(rate for key, rate in of.unmet.items() if priorities.get(key, 0) >= least)

    return all(unmet(plan, least) <= unmet(new, least) + _UNMET for least in set(priorities.values()))


def _finished(plan: Plan, new: Plan, snapshot: Snapshot, reasons: tuple[Reason, ...]) -> Plan:
    """As if `new`'s solve had found it: under the snapshot's own cost of start-up, with the bound that `new` proved."""
    init = snapshot.settings.init_factor * _new_usd_per_hour(plan)
    objective = plan.usd_per_hour + init + plan.spot_risk_usd_per_hour
    gap = max(0.0, (objective - new.bound) / objective) if objective > 0 else 0.0
    proven = plan.status != "optimal" or gap <= snapshot.settings.limits.gap
    known = replace(
        plan,
        id="",
        library_version=new.library_version,
        init_usd=init,
        objective=objective,
        bound=min(new.bound, objective),
        gap=gap,
        status=plan.status if proven else "feasible",
        duals=new.duals,
        solve_s=0.0,
        statistics={},
        reasons=(*plan.reasons, *reasons),
    )
    content = msgspec.json.encode(known, order="sorted")
    return replace(known, id=hashlib.blake2b(content, digest_size=16).hexdigest(), solve_s=new.solve_s + plan.solve_s)


def _reasons(
    best: Plan, new: Plan, running: Mapping[Column, int], rule: Payback, startup_minutes: float
) -> tuple[Reason, ...]:
    """One for each model whose moves are fewer."""
    kept, dropped = _counts(best), _counts(new)
    model = {(i.template_id, i.zone, i.market): i.model for plan in (best, new) for i in plan.instances}
    fewer: Counter[str] = Counter()
    for column in kept | dropped:
        there = running.get(column, 0)
        fewer[model[column]] += abs(dropped[column] - there) - abs(kept[column] - there)
    saves = best.usd_per_hour + best.spot_risk_usd_per_hour - new.usd_per_hour - new.spot_risk_usd_per_hour
    costs = rule.start_usd(_new_usd_per_hour(new) - _new_usd_per_hour(best), startup_minutes)
    why = f"which takes longer than {rule.horizon_minutes:g} minutes to pay back"
    if rule.moves_left == 0:
        why = "and as many instances were moved within an hour as may be"
    return tuple(
        Reason(
            "churn",
            f"{moves} moves of the cheapest plan are left out: all that is left out would save {saves:.2f} $/h and "
            f"cost {costs:.2f} $ to carry out, {why}",
            name,
            saves,
        )
        for name, moves in sorted(fewer.items())
        if moves > 0
    )
