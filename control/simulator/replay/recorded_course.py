"""The course that a recorded span really took."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from math import ceil, inf

import numpy as np

from control.db.database import Database
from control.db.past import PastInstance, PastNode
from control.db.plans import PostgresPlans
from control.diff.target import Target, targets
from control.lifecycle.event import EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from control.planning.world import World
from control.reconcile.decision import same
from control.simulator.replay.course import MINUTE_S, Course, Demand, Floats, Held, Life, Moves, build_course
from control.simulator.replay.span import Span
from policies.availability import CallOutcome
from policies.metered_work import text_classes
from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan


def recorded_course(database: Database, span: Span, world: World, edges_s: Floats) -> Course:
    """By what is on record. `world`: of the fleet as it was. Raises DatabaseUnavailableError."""
    plans = PostgresPlans(database)
    what = wanted_then(plans, span.instances)
    return build_course(
        edges_s,
        [held for node in span.nodes if node.fleet == span.fleet and node.charged for held in held_of(node, span)],
        list(_in_force(plans, span)),
        offered(span, world),
        [route for served in world.recipe.served for route in served.routes()],
        [life for past in span.instances for life in _lives(past, what.get(past.id), span)],
        moves_of(
            ((span.seconds(datetime.fromisoformat(step.at)), step) for past in span.instances for step in past.steps),
            [span.seconds(call.at) for call in span.calls if call.outcome in REFUSALS],
        ),
        anywhere=world.fleet.sources.by_region,
    )


REFUSALS = frozenset({CallOutcome.STOCK_OUT, CallOutcome.QUOTA, CallOutcome.REFUSED, CallOutcome.UNAUTHORISED})


def offered(span: Span, world: World) -> Demand:
    """What came: as gateways reported it, or as the spec states it where they reported nothing of an app."""
    minutes = ceil(span.length_s / MINUTE_S)
    shapes = {served.name: served.shape for served in world.recipe.served}
    found = {}
    for demand in world.demand:
        shape, own = shapes[demand.app], [load for load in span.load if load.app == demand.app]
        rate = np.full(minutes, demand.requests_per_s if not own else 0.0)
        for load in own:
            first = int(span.seconds(load.at) // MINUTE_S)
            last = max(first + 1, first + round((3600 if load.seconds > MINUTE_S else load.seconds) / MINUTE_S))
            work = text_classes(demand.app, *shape.mean_tokens)
            requests = max(load.units.get(each.key, 0) / each.units_per_request for each in work)
            rate[max(first, 0) : max(last, 0)] += requests / ((last - first) * MINUTE_S)
        found[demand.app] = rate
    return Demand(found)


def wanted_then(plans: PostgresPlans, instances: Iterable[PastInstance]) -> dict[str, Target]:
    """Instance → what the plan that asked for it wanted; those whose plan was thrown away are not there."""
    known: dict[str, dict[tuple[str, str, Market], Target]] = {}
    found = {}
    for past in instances:
        if past.plan_id not in known:
            known[past.plan_id] = {each.column: each for each in _wanted(plans, past.plan_id)}
        each = known[past.plan_id].get((past.template.id, past.zone, past.market))
        if each is not None:
            found[past.id] = each
    return found


def moves_of(steps: Iterable[tuple[float, PastTransition]], refused: Iterable[float]) -> Moves:
    launched, moved, failed = [], [], []
    for at_s, step in steps:
        if step.event is EventKind.PROVISION:
            launched.append(at_s)
        elif is_move(step):
            moved.append(at_s)
        elif step.to_state is InstanceState.FAILED:
            failed.append(at_s)
    return Moves(tuple(launched), tuple(moved), tuple(failed), tuple(refused))


def is_move(step: PastTransition) -> bool:
    released = step.event is EventKind.RELEASE
    ailed = step.from_state in (InstanceState.FAILED, InstanceState.DRAINING)
    return step.event is EventKind.DRAIN or (released and not ailed)


def _wanted(plans: PostgresPlans, plan_id: str) -> tuple[Target, ...]:
    try:
        return targets(plans.load(plan_id))
    except (LookupError, ValueError):
        return ()


def _lives(past: PastInstance, what: Target | None, span: Span) -> Iterator[Life]:
    if what is None:
        return
    for step, later in pairwise((*past.steps, None)):
        if step is not None and step.to_state is InstanceState.READY:
            until_s = inf if later is None else span.seconds(datetime.fromisoformat(later.at))
            yield Life(past.zone, what.units_per_s, span.seconds(datetime.fromisoformat(step.at)), until_s)


def held_of(node: PastNode, span: Span) -> Iterator[Held]:
    """One for each price that the node was charged at, its disk included."""
    end_s = inf if node.gone_at is None else span.seconds(node.gone_at)
    times = [span.seconds(at) for at, _ in node.prices]
    for n, (_, usd) in enumerate(node.prices):
        until_s = min(times[n + 1] if n + 1 < len(times) else inf, end_s)
        if until_s > times[n]:
            known = None if usd is None else usd + node.disk_usd_per_hour
            yield Held(_shape(node.offer), times[n], until_s, known)


def _shape(offer: str) -> str:
    """Machine and market of an offer, for people."""
    *_, machine, market = offer.split("/")
    return f"{machine} {market}"


def _in_force(plans: PostgresPlans, span: Span) -> Iterator[tuple[float, float]]:
    """(from when, $/h) of plans that were accepted, and of later ones that wanted the same at other prices. What people
    asked for beside that was never in force."""
    accepted = {event.subject for event in span.events if event.kind == "plan.accepted"}
    held = _loaded(plans, span.held[1]) if span.held else None
    if held is not None:
        yield 0.0, held.usd_per_hour
    for made in span.plans:
        plan = _loaded(plans, made.id)
        if plan is not None and (made.id in accepted or (held is not None and same(held, plan))):
            held = plan
            yield max(span.seconds(made.at), 0.0), plan.usd_per_hour


def _loaded(plans: PostgresPlans, plan: str) -> Plan | None:
    try:
        return plans.load(plan)
    except LookupError:
        return None


def startup_s(span: Span) -> tuple[float, float] | None:
    """Least and most that a recorded instance took from being asked for to its first request; None: none did."""
    took = [
        _between(past, InstanceState.REQUESTED, InstanceState.READY)
        for past in span.instances
        if any(step.to_state is InstanceState.READY for step in past.steps)
    ]
    return (min(took), max(took)) if took else None


def drains_s(span: Span, what: Mapping[str, Target]) -> dict[tuple[str, ...], float]:
    """Work classes → the median of what recorded instances took to drain."""
    took: dict[tuple[str, ...], list[float]] = {}
    for past in span.instances:
        if past.id in what and any(step.event is EventKind.DRAINED for step in past.steps):
            lasted_s = _between(past, InstanceState.DRAINING, InstanceState.TERMINATING)
            took.setdefault(what[past.id].classes, []).append(lasted_s)
    return {key: float(np.median(values)) for key, values in took.items()}


def _between(past: PastInstance, one: InstanceState, other: InstanceState) -> float:
    at = {step.to_state: datetime.fromisoformat(step.at) for step in past.steps}
    return (at[other] - at[one]).total_seconds()
