"""The churn guard: of a new plan, only what pays for its own disturbance is carried out.

A solve weighs what a new instance costs before it serves (start-up) against the savings of an adjustment interval, and
so re-mixes a fleet for every small change of demand or price. The guard asks again with the whole cost of a move
(start-up, and the old instance that drains beside it) against the savings of a horizon that a move must pay back
within. It asks the same solver under the same demand, supply and guardrails, so that nothing that is needed for demand,
priorities, a budget or a lost offer is ever refused: unmet demand comes first there too.

Nor is anything that serves broken to make room for what would only be cheaper: where an offer has no node left, a solve
that may take those of one model for another finds a slightly better mix after every loss and every refusal, and each of
them costs capacity until the new instances serve. So what is new has to find room beside what runs, unless that leaves
more demand unmet.

Both rules may stand in the way of a saving for hours. So what they leave out is added up (`LeftOut`), and once that
comes to half as much again as the moves cost, they are made: as with skis that are rented until the rents come to their
price, to wait has then not cost much more than what it was to avoid, whatever becomes of the market. First another mix
of what is held, and of offers that did not refuse lately: a swap that counts on more of what refuses breaks what
serves, is refused, and is undone. The cheapest plan as it is has to have saved twice as much. Neither is begun while
anything is on its way: after a loss every plan is another one, and most would be given up before they serve.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from policies.stepping_stones import READY, with_stepping_stones
from templates_lib.ports.solve import Solve
from templates_lib.values.instance import Instance
from templates_lib.values.library import Library
from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan, PlannedInstance, Reason
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot

_ROUNDING = 1e-6
"""Requests per second that are, and $ per hour."""

_MORE_THAN_ANYTHING_SAVES = 100.0
_PATIENCE = 4.0
"""Horizons that a saving is believed to last which has lasted until it would have paid."""
_TIMES = 1.5
"""Multiple of its cost that a mix has to have saved: with 1 two weeks moved a twentieth more for 0.2 % fewer
dollars."""
_TIMES_IF_DOUBTFUL = 3.0
"""The same multiple for a plan that counts on more of what refuses."""
_SWAP = timedelta(minutes=15)
"""Time within which accumulated savings are carried out: what is new starts, what is broken drains, what gets its nodes
starts."""
CHURN = "churn"
"""Kind of the reasons that say what was left out."""
ADDED_UP = "added-up"
"""Kind of the reason of a plan that carries it out."""

Column = tuple[str, str, Market]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Savings that a fleet went without since it was last moved to the cheapest plan."""

    at: datetime | None = None
    """Time of the last plan; None: there was none."""
    usd_per_hour: float = 0.0
    """Dollars an hour that this plan left out."""
    usd: float = 0.0
    """Dollars left out by that time."""
    swapped_at: datetime | None = None
    """Time of the last plan that carried such savings out."""

    def usd_by(self, now: datetime, longest: timedelta) -> float:
        """Sum what was left out until then, $; between two plans as much as in `longest` at most, however far a clock
        jumps."""
        if self.at is None:
            return 0.0
        return self.usd + self.usd_per_hour * min(max(now - self.at, timedelta()), longest) / timedelta(hours=1)

    def is_swapping(self, now: datetime) -> bool:
        """Tell whether such a plan is still under way."""
        return self.swapped_at is not None and timedelta() <= now - self.swapped_at < _SWAP

    def after(self, plan: Plan, now: datetime, longest: timedelta) -> "LeftOut":
        """Count `plan`, of `guard`, made now with all that was left out until then."""
        if any(reason.kind == ADDED_UP for reason in plan.reasons):
            return LeftOut(now, swapped_at=self.swapped_at if self.is_swapping(now) else now)
        rate = sum(reason.usd_per_hour or 0.0 for reason in plan.reasons if reason.kind == CHURN)
        return LeftOut(now, max(rate, 0.0), self.usd_by(now, longest), self.swapped_at)


@dataclass(frozen=True, slots=True)
class Payback:
    """Costs of a move besides its start-up, and how soon it must have saved them."""

    horizon_minutes: float = 15.0
    """Prices, demand and what a spot market gives change before long: savings beyond this are not counted."""
    overlap_minutes: float = 4.0
    """Minutes for which the old instance drains, paid, after the new one serves."""
    moves_left: int | None = None
    """Instances that may still be moved to save money, of those that may be within an hour; None: any number. With
    none left only what is needed is begun: where a cheap offer comes and goes, a move to it always seems to pay."""
    left_out_usd: float = 0.0
    """Dollars that moves left out until now would have saved (`LeftOut.usd_by`)."""
    is_swapping: bool = False
    """True while some of them are being made."""
    doubtful: frozenset[str] = frozenset()
    """Keys of offers of which more may be refused."""

    def weighed(self, settings: Settings, patience: float = 1.0) -> Settings:
        """Return the settings under which K (`Settings.init_factor_of`) is the whole cost of a new instance, as a share
        of its rent over the horizon, `patience` times as long."""
        if self.moves_left == 0:
            return replace(
                settings, startup_minutes=_MORE_THAN_ANYTHING_SAVES, install_minutes={}, adjustment_interval_minutes=1.0
            )
        return replace(
            settings,
            startup_minutes=settings.startup_minutes + self.overlap_minutes,
            adjustment_interval_minutes=patience * self.horizon_minutes,
        )


def guard(snapshot: Snapshot, library: Library, new: Plan, solve: Solve, payback: Payback | None = None) -> Plan:
    """Choose the plan to apply instead of `new`, which was solved on `snapshot` and `library`: itself, or a plan with
    fewer moves, with reasons of kind CHURN that say what was left out and why. Where what was left out before comes to
    more than moves cost, return a plan that makes them, with a reason of kind ADDED_UP.

    The plan leaves no more demand unmet. Unless it is of kind ADDED_UP, by rent, traffic, spot risk and the cost of its
    moves it is no dearer over the horizon than keeping what runs where that serves as much (within the solver's gap),
    nor than any plan whose new instances find room beside what runs; where such a plan would leave more unmet, nor than
    `new`. Stepping stones (`policies.stepping_stones`) come on top of that. Where several offers sell the nodes of what
    is new, the cost of its moves is reckoned too high by at most what `_start` says: the guard may then
    stand still where a move would just have paid, never the other way round.
    """
    running = Counter((i.template_id, i.zone, i.market) for i in snapshot.staying())
    if not running or _counts(new) == running:  # nothing would be moved
        return new
    rule = payback or Payback()
    weighed = rule.weighed(snapshot.settings)
    known = {name for name, _, _ in running}
    unbroken = _unbroken(snapshot)
    stay = _solved(_without_more(unbroken, frozenset(o.key for o in snapshot.offers)), library.of(known), solve, rule)
    # Not only of the templates of `new`: beside what runs there may be room for others only.
    best = _solved(unbroken, library, solve, rule)
    if not _serves(best, new, snapshot):
        fewer = _solved(snapshot, library.of(known | {i.template_id for i in new.instances}), solve, rule)
        best = fewer if _serves(fewer, new, snapshot) and _cost(fewer, weighed) < _cost(new, weighed) else new
    cost = _cost(best, weighed)
    # Within what the solver may be off, to stand still is best.
    if _serves(stay, new, snapshot) and _cost(stay, weighed) <= cost * (1 + snapshot.settings.limits.gap):
        best = stay
    best, stones = with_stepping_stones(best, snapshot, library, rule.horizon_minutes)
    if _counts(best) == _counts(new):  # to move to it at once is best
        return new
    overdue = _overdue(best, new, snapshot, library, solve, rule)
    if overdue is not None:
        return overdue
    return _finished(best, new, snapshot, (*_left_out(best, new, snapshot, rule), *_kept_for_more(stones)))


def _solved(snapshot: Snapshot, library: Library, solve: Solve, rule: Payback, patience: float = 1.0) -> Plan:
    return solve(replace(snapshot, settings=rule.weighed(snapshot.settings, patience)), library)


def _unbroken(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the setting that nothing running has to go first."""
    return replace(snapshot, settings=replace(snapshot.settings, beside_running=True))


def _counts(plan: Plan) -> Counter[Column]:
    return Counter({(i.template_id, i.zone, i.market): i.count for i in plan.instances if i.count})


def _cost(plan: Plan, weighed: Settings) -> float:
    """$ per hour over the horizon."""
    return _rate(plan) + _start(plan, weighed)


def _start(plan: Plan, settings: Settings) -> float:
    """Σ K · rent of what does not run yet, at the mean price of the nodes of its row, those that run among them.

    An approximation where a row draws on several offers of one cell (configuration, zone, market). The solver reckons
    with the cheapest offer of each cell (`_least_start`). This is never less, and more by at most, for every
    new node, the dearest price of its cell in the plan less the cheapest one of the market.
    """
    return sum(
        settings.init_factor_of(i.engines) * i.usd_per_hour / i.count * max(i.count - i.running, 0)
        for i in plan.instances
        if i.count
    )


def _least_start(plan: Plan, snapshot: Snapshot) -> float:
    """The same at the cheapest offer of each cell that gives nodes: as the solver reckons it."""
    held = snapshot.held_nodes()
    least: dict[tuple[str, str, Market], float] = {}
    for offer in snapshot.offers:
        if held[offer.key] + snapshot.more_nodes(offer) > 0:
            cell = offer.node_config, offer.zone_id, offer.market
            least[cell] = min(offer.usd_per_hour, least.get(cell, offer.usd_per_hour))
    disks = snapshot.charged_disks

    def each(instance: PlannedInstance) -> float:
        disk = disks.usd_per_hour(instance.zone, instance.disk_gib)
        return sum(n * (least[config, instance.zone, instance.market] + disk) for config, n in instance.nodes.items())

    return sum(
        snapshot.settings.init_factor_of(i.engines) * (i.count - i.running) * each(i)
        for i in plan.instances
        if i.count > i.running
    )


def _serves(plan: Plan, new: Plan, snapshot: Snapshot) -> bool:
    """Tell whether `plan` leaves no more unmet of any priority and all above it, and no class shorter of replicas."""
    priorities = {demand.key: demand.priority for demand in snapshot.demand}

    def unmet(of: Plan, least: int) -> float:
        return sum(rate for key, rate in of.unmet.items() if priorities.get(key, 0) >= least)

    if not _short_of_replicas(plan) <= _short_of_replicas(new):
        return False
    return all(unmet(plan, least) <= unmet(new, least) + _ROUNDING for least in set(priorities.values()))


def _short_of_replicas(plan: Plan) -> set[str]:
    """Return the solver's texts on classes short of replicas: which, and by how many."""
    return {reason.text for reason in plan.reasons if reason.kind == "replicas"}


def _finished(plan: Plan, new: Plan, snapshot: Snapshot, reasons: tuple[Reason, ...]) -> Plan:
    """Complete a plan as if `new`'s solve had found it: under the snapshot's own cost of start-up, with the bound that
    `new` proved.

    Its objective is exactly what the solver reckons with, so that the gap to that bound is one; but for spot stepping
    stones, whose risk is that of their own offers rather than of the cheapest of their like.
    """
    init = _least_start(plan, snapshot)
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


def _overdue(best: Plan, new: Plan, snapshot: Snapshot, library: Library, solve: Solve, rule: Payback) -> Plan | None:
    """Return the plan to carry out instead of `best`, as plans like it have cost more than that by now; None:
    nothing."""
    if rule.moves_left == 0 or not (rule.left_out_usd > 0 or rule.is_swapping):
        return None
    is_calm = all(instance.state == READY for instance in snapshot.staying())
    mix = _solved(_without_more(snapshot, rule.doubtful), library, solve, rule, _PATIENCE)
    if _serves(mix, new, snapshot) and _rate(mix) < _rate(best) - _ROUNDING:
        has_added_up = rule.left_out_usd >= _TIMES * _costs(best, mix, snapshot, rule)
        if rule.is_swapping or (is_calm and has_added_up):
            return _finished(mix, new, snapshot, (_added_up(best, mix, snapshot, rule),))
    if (
        is_calm
        and _rate(new) < _rate(best) - _ROUNDING
        and rule.left_out_usd >= _TIMES_IF_DOUBTFUL * _costs(best, new, snapshot, rule)
    ):
        return replace(new, reasons=(*new.reasons, _added_up(best, new, snapshot, rule)))
    return None


def _added_up(best: Plan, other: Plan, snapshot: Snapshot, rule: Payback) -> Reason:
    costs, saves = max(_costs(best, other, snapshot, rule), 0.0), _rate(best) - _rate(other)
    before = f"; what was left out before has cost {rule.left_out_usd:.2f} $" if rule.left_out_usd else ""
    text = f"moves are made that break what serves: they save {saves:.2f} $/h and cost {costs:.2f} ${before}"
    return Reason(ADDED_UP, text, "", saves)


def _without_more(snapshot: Snapshot, offers: frozenset[str]) -> Snapshot:
    """Leave no more of `offers` than what is held."""
    none_more = (replace(offer, available_count=0) if offer.key in offers else offer for offer in snapshot.offers)
    return replace(snapshot, offers=tuple(none_more))


def _costs(best: Plan, other: Plan, snapshot: Snapshot, rule: Payback) -> float:
    """$ to carry out `other` instead of `best`."""
    hour = replace(rule, moves_left=None, horizon_minutes=60.0).weighed(snapshot.settings)
    return _start(other, hour) - _start(best, hour)


def _left_out(best: Plan, new: Plan, snapshot: Snapshot, rule: Payback) -> Iterator[Reason]:
    """One for the plan: its figures are of all models together."""
    running = Counter((i.template_id, i.zone, i.market) for i in snapshot.staying())
    moves, saves = _moves(new, running) - _moves(best, running), _rate(best) - _rate(new)
    if moves <= 0 and saves <= 0:
        return
    costs = _costs(best, new, snapshot, rule)
    plan = "the cheapest plan" if saves >= 0 else "the plan that was solved first"
    what = {0: f"{plan} is", 1: f"1 move of {plan} is"}.get(max(moves, 0), f"{moves} moves of {plan} are")
    rates = f"would save {saves:.2f} $/h" if saves >= 0 else f"would cost {-saves:.2f} $/h more"
    start = f"cost {costs:.2f} $ to carry out" if costs > 0 else "cost nothing more to carry out"
    why = ", but would break what serves"
    if rule.moves_left == 0:
        why = ", and as many instances were moved within an hour as may be"
    elif saves < 0:
        why = ""
    elif 60 * costs > rule.horizon_minutes * saves:
        why = f", which takes longer than {rule.horizon_minutes:g} minutes to pay back"
    text = f"{what} left out: it {rates}{_served(best, new)} and {start}{why}"
    yield Reason(CHURN, text, "", saves)


def _served(best: Plan, new: Plan) -> str:
    """Say by how much `new` serves more or less of which demand."""
    parts = []
    for key in sorted(best.unmet.keys() | new.unmet.keys()):
        more = best.unmet.get(key, 0.0) - new.unmet.get(key, 0.0)
        if abs(more) > _ROUNDING:
            parts.append(f"serve {abs(more):.3g} requests/s {'more' if more > 0 else 'less'} of {key}")
    return "".join(f", {part}" for part in parts)


def _kept_for_more(stones: tuple[Instance, ...]) -> Iterator[Reason]:
    if stones:
        what = "1 cheap instance is" if len(stones) == 1 else f"{len(stones)} cheap instances are"
        text = "kept for a while beyond the demand: with more of its kind, a more expensive instance can go"
        yield Reason(CHURN, f"{what} {text}")


def _moves(plan: Plan, running: Mapping[Column, int]) -> int:
    counts = _counts(plan)
    return sum(abs(counts[column] - running.get(column, 0)) for column in counts.keys() | running.keys())


def _rate(plan: Plan) -> float:
    """$ per hour without what it costs to begin."""
    return plan.usd_per_hour + plan.spot_risk_usd_per_hour
