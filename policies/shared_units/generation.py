"""Units that plans of many models would have, found without listing all: by their worth at the prices of a relaxation.

The linear relaxation over some units says what it is worth to serve each model. At these prices the best unit on a node
is a small integer program: which models are members, and how much of each is served, within the node's time and memory.
Units that are worth more than their node costs join, and the relaxation is solved again, until there are none. Then its
cost, and before that a bound (Lagrange), holds for every plan of whatever units. (MuxServe has no bound; its greedy
placement takes each model once.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from policies.integer_program import IntegerProgram, Relaxed
from templates_lib.units.enumeration import EnumeratedUnit, Uses, unit_of
from templates_lib.units.unit_capacity import MOST_MEMBERS, usable_bytes
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig

MOST_ROUNDS = 200
NEAR = 1e-4
"""The relaxation is done where its cost is this near to its bound."""
PRICING_GAP = 1e-6
LEAST_SERVED, DIGITS = 1e-6, 9
"""Shares under the one, or beyond so many digits, are rounding of the solver."""
SHORT = 100.0
"""$/h of a model that is not served, in those of the dearest node: no plan would rather pay it."""


@dataclass(frozen=True, slots=True)
class SoldNode:
    """Nodes of one configuration at one price."""

    node: NodeConfig
    usd_per_hour: float
    count: int


@dataclass(frozen=True, slots=True)
class UnitMarket:
    """What units may be made of. Models that are asked for nothing are left out."""

    sold: tuple[SoldNode, ...]
    uses: Uses
    gpus: Mapping[str, Gpu]
    """GPU types by name."""
    requests_per_s: Mapping[str, float]
    """Capacity that each model needs: what is asked of it, over the utilisation cap."""

    def unit(self, node: NodeConfig, members: Iterable[str]) -> EnumeratedUnit | None:
        return unit_of(node, members, self.uses, self.gpus)


@dataclass(frozen=True, slots=True)
class GeneratedUnits:
    units: tuple[EnumeratedUnit, ...]
    usd_per_hour: float
    """Cost of the relaxation over these units."""
    bound: float
    """No plan costs less, of whatever units."""
    rounds: int


@dataclass(frozen=True, slots=True)
class _Column:
    """A unit on a node as the relaxation has it: how much of each model it serves, as shares of what is needed."""

    sold: int
    served: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _BestUnit:
    """The unit on a node that is worth most at some prices."""

    served: Mapping[str, float]
    worth: float
    most: float
    """No unit there is worth more."""


def generate_units(market: UnitMarket, most_rounds: int = MOST_ROUNDS) -> GeneratedUnits:
    """Units for the relaxation's optimum, or towards it, those of one member among them."""
    names = sorted(market.requests_per_s)
    nodes = list(dict.fromkeys(sold.node for sold in market.sold))
    columns, bound, rounds = _alone(market), -inf, 0
    while True:
        rounds += 1
        relaxed = _relax(market, names, columns)
        worth = dict(zip(names, relaxed.duals[: len(names)].tolist(), strict=True))
        best = {node: _best_unit(market, node, worth) for node in nodes}
        bound = max(bound, _bound(market, worth, best))
        better = [
            column
            for number, sold in enumerate(market.sold)
            if best[sold.node].worth > sold.usd_per_hour * (1 + PRICING_GAP)
            and (column := _Column(number, best[sold.node].served)) not in columns
        ]
        if relaxed.objective - bound <= NEAR * abs(relaxed.objective) or not better or rounds == most_rounds:
            break
        columns += better
    found = {(market.sold[column.sold].node.id, tuple(sorted(column.served))): column for column in columns}
    units = [market.unit(market.sold[column.sold].node, column.served) for column in found.values()]
    return GeneratedUnits(tuple(unit for unit in units if unit), relaxed.objective, bound, rounds)


def _alone(market: UnitMarket) -> list[_Column]:
    """Every model by itself on every node that holds it, as much of it as is needed."""
    found = []
    for number, sold in enumerate(market.sold):
        for name, needed in sorted(market.requests_per_s.items()):
            unit = market.unit(sold.node, [name])
            if unit is not None:
                found.append(_Column(number, {name: min(1.0, float(unit.capacity.most[0]) / needed)}))
    return found


def _relax(market: UnitMarket, names: Sequence[str], columns: Sequence[_Column]) -> Relaxed:
    program = IntegerProgram()
    for column in columns:
        program.add(market.sold[column.sold].usd_per_hour, upper=inf, integer=False)
    short = [program.add(_short_usd(market), upper=1.0, integer=False) for _ in names]
    for i, name in enumerate(names):
        row = {c: column.served[name] for c, column in enumerate(columns) if name in column.served}
        program.require(row | {short[i]: 1.0}, lower=1.0)
    for number, sold in enumerate(market.sold):
        row = {c: 1.0 for c, column in enumerate(columns) if column.sold == number}
        if row:
            program.require(row, upper=float(sold.count))
    return program.relaxed()


def _short_usd(market: UnitMarket) -> float:
    return SHORT * max(sold.usd_per_hour for sold in market.sold)


def _bound(market: UnitMarket, worth: Mapping[str, float], best: Mapping[NodeConfig, _BestUnit]) -> float:
    """Least cost by Lagrange: models are paid by their worth, and each node gives the best unit there is, or none."""
    paid = sum(min(value, _short_usd(market)) for value in worth.values())
    lost = sum(sold.count * max(0.0, best[sold.node].most - sold.usd_per_hour) for sold in market.sold)
    return paid - lost


def _best_unit(market: UnitMarket, node: NodeConfig, worth: Mapping[str, float]) -> _BestUnit:
    """The unit on a node that is worth most at these prices."""
    here = market.uses.get(node.id, {})
    names = [name for name, value in worth.items() if value > 0 and name in here]
    if not names:
        return _BestUnit({}, 0.0, 0.0)
    program, gpu = IntegerProgram(gap=PRICING_GAP), market.gpus[node.gpu]
    room = usable_bytes(gpu, node.gpu_count, 0)
    own = room - usable_bytes(gpu, node.gpu_count, 1)
    time: dict[int, float] = {}
    memory: dict[int, float] = {}
    longest: dict[int, float] = {}
    places: dict[int, float] = {}
    served = []
    for name in names:
        use, needed = here[name], market.requests_per_s[name]
        is_member, share = program.add(0.0, upper=1.0), program.add(-worth[name], upper=1.0, integer=False)
        program.require({share: 1.0, is_member: -1.0}, upper=0.0)
        time |= {is_member: use.idle, share: needed * use.request_s}
        memory |= {is_member: (own + use.weight_bytes) / room, share: needed * use.kv_bytes / room}
        longest[is_member] = (own + use.weight_bytes + use.longest_bytes) / room
        places[is_member] = 1.0 / MOST_MEMBERS
        served.append(share)
    for row in (time, memory, longest, places):
        program.require(row, upper=1.0)
    found = program.optimum()
    shares = [round(float(found.values[share]), DIGITS) for share in served]
    members = {name: share for name, share in zip(names, shares, strict=True) if share > LEAST_SERVED}
    return _BestUnit(members, -found.objective, -found.bound)


def neighbours(market: UnitMarket, units: Iterable[EnumeratedUnit]) -> tuple[EnumeratedUnit, ...]:
    """Units that differ from one of these by a member more, less or another, or by its node."""
    nodes = {sold.node.id: sold.node for sold in market.sold}
    sets: dict[tuple[str, tuple[str, ...]], None] = {}
    for unit in units:
        members = set(unit.members)
        near = [members]
        near += [members | {name} for name in market.requests_per_s if name not in members]
        near += [members - {name} for name in unit.members if len(members) > 1]
        near += [
            members - {out} | {name} for out in unit.members for name in market.requests_per_s if name not in members
        ]
        sets |= {(unit.node.id, tuple(sorted(each))): None for each in near}
        sets |= {(node, unit.members): None for node in nodes}
    found = [market.unit(nodes[node], members) for node, members in sets]
    return tuple(unit for unit in found if unit is not None)
