"""The whole way from what runs to what is wanted, if nothing fails: the moves of `next_moves`, one after another."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from control.diff.capacity import planned_units, ready_units
from control.diff.holdings import rest_of, what_is_left
from control.diff.limits import ChangeLimits, Past
from control.diff.moves import Launch, MoveSet, Wait
from control.diff.next_moves import next_moves
from control.diff.running import Running
from control.diff.supply import Supply
from control.diff.target import Target
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance, Node

_AT_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class FleetTransition:
    """Nodes held and new keep within supply at each step."""

    steps: tuple[MoveSet, ...]
    """Steps, each of which begins when what the one before launched is ready, and what it drained is gone."""
    promised_loss: dict[str, float]
    """Units per second by work class, of the lesser of what the plan wants and what is ready at first, that are missing
    at the worst step; only entries > 0. Empty: nothing is broken before it is made."""
    stuck: tuple[Wait, ...]
    """Changes that no step makes: the plan does not fit supply or limits."""


def plan_transition(
    wanted: Sequence[Target], running: Sequence[Running], supply: Supply, limits: ChangeLimits | None = None
) -> FleetTransition:
    """Return the steps from what runs to what is wanted. Limits per window (new nodes, disruption) are left out: they
    make it take longer, and no other way.

    Raises ValueError for a way that comes to no end, which would be an error of `next_moves`.
    """
    given = limits or ChangeLimits()
    lasting = ChangeLimits(max_usd_per_hour=given.max_usd_per_hour, max_loss_share=given.max_loss_share)
    planned, ready = planned_units(wanted), ready_units(running)
    floor = {name: min(units, ready.get(name, 0.0)) for name, units in planned.items()}
    loss: defaultdict[str, float] = defaultdict(float)
    steps: list[MoveSet] = []
    used: frozenset[str] = frozenset(each.id for each in running)
    now: Sequence[Running] = running
    for _ in range(2 * (len(running) + sum(t.count for t in wanted)) + 2):
        moves = next_moves(wanted, now, supply, lasting, Past(used=used), _AT_ANY_TIME)
        if not moves.acts and all(each.is_ready for each in now):  # what still waits waits for supply
            return FleetTransition(tuple(steps), {name: units for name, units in loss.items() if units > 0}, moves.wait)
        if moves.acts:
            steps.append(moves)
        used |= {launch.id for launch in moves.launch}
        left = _left(now, moves)
        for name, units in floor.items():
            short = units - ready_units(left).get(name, 0.0)
            loss[name] = max(loss[name], short if short > _ROUNDING * units else 0.0)
        now = _completed(left, moves.launch, supply)
    raise ValueError("the moves from this fleet to this plan come to no end")


def _left(running: Sequence[Running], moves: MoveSet) -> list[Running]:
    """Return what still runs once what is on its way out, and what is chosen to go, is gone."""
    going = {drain.instance_id for drain in moves.drain} | {release.instance_id for release in moves.release}
    return [each for each in running if not each.is_leaving and each.id not in going]


def _completed(staying: Sequence[Running], launches: Sequence[Launch], supply: Supply) -> list[Running]:
    """All of them ready, with all their nodes."""
    launched = [_launched(launch) for launch in launches]
    ledger = what_is_left(supply, (*staying, *launched))
    return [*(each if each.is_ready else _ready(each, rest_of(each, ledger)) for each in staying), *launched]


def _ready(each: Running, offers: Mapping[str, int]) -> Running:
    nodes = (*each.instance.nodes, *_nodes(offers))
    return replace(each, instance=replace(each.instance, state=InstanceState.READY, nodes=nodes))


def _launched(launch: Launch) -> Running:
    t = launch.target
    nodes = _nodes(launch.offers)
    instance = Instance(launch.id, t.template_id, t.zone, t.market, InstanceState.READY, nodes)
    return Running(instance, t.nodes, t.units_per_s, t.usd_per_hour)


def _nodes(offers: Mapping[str, int]) -> tuple[Node, ...]:
    return tuple(Node("", offer) for offer, count in offers.items() for _ in range(count))
