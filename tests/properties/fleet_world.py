"""A small world in which a fleet is moved: nodes that come slowly or not at all, instances that fail, a clock."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from control.diff.limits import ChangeLimits, Past
from control.diff.moves import MoveSet
from control.diff.next_moves import next_moves
from control.diff.running import Running
from control.diff.supply import Ledger, Supply, supply_of
from control.diff.target import Target
from control.lifecycle.advance import Transition, advance
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import LEAVING, Instance, Node
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool
from tests import factories as make

CONFIGS = ("A:1/n25", "B:1/n25", "C:1/n25")
CLASSES = ("m/prefill", "m/decode", "n/serve")
ZONES = ("aws/a", "aws/b")
START = datetime(2026, 11, 21, tzinfo=UTC)
TICK = timedelta(minutes=1)
_ON_ITS_WAY = {
    InstanceState.BOOTSTRAPPING: EventKind.AGENTS_UP,
    InstanceState.LOADING: EventKind.LOADED,
    InstanceState.DRAINING: EventKind.DRAINED,
}


def random_supply(chance: Random, *, scarce: bool) -> Supply:
    """One offer of every configuration, zone and market; pools over the offers of a configuration in some worlds."""
    offers: list[Offer] = []
    for size, config in enumerate(CONFIGS, start=1):
        for zone in ZONES:
            for market, share in ((Market.ON_DEMAND, 1.0), (Market.SPOT, 0.4)):
                count = chance.randint(0, 4) if scarce else chance.randint(4, 30)
                offers.append(
                    make.offer(config, zone, round(size * share * chance.uniform(0.8, 1.2), 3), count, market=market)
                )
    pools = []
    if chance.random() < 0.5:
        for config in CONFIGS:
            members = {o.key: 1.0 for o in offers if o.node_config == config}
            pools.append(SupplyPool(config, float(chance.randint(2, 40)), "nodes", members))
    return supply_of(offers, pools, {}, 4)


def random_plan(chance: Random, supply: Supply, name: str) -> tuple[Target, ...]:
    """A plan that fits the supply alone."""
    ledger, counts, kinds = Ledger(supply), Counter[tuple[int, str, Market]](), random_kinds()
    price = {(o.node_config, o.zone_id, o.market): o.usd_per_hour for o in supply.offers}
    for _ in range(chance.randint(0, 8)):
        kind, zone, market = chance.randrange(len(kinds)), chance.choice(ZONES), chance.choice(list(Market)[:2])
        if ledger.take(kinds[kind][0], zone, market) is not None:
            counts[kind, zone, market] += 1
    return tuple(
        make.target(
            f"{k:032x}",
            n,
            *kinds[k],
            sum(c * price[g, z, m] for g, c in kinds[k][0].items()),
            plan_id=name,
            zone=z,
            market=m,
        )
        for (k, z, m), n in sorted(counts.items())
    )


def random_kinds() -> list[tuple[dict[str, int], dict[str, float]]]:
    """Templates that are the same in every world: nodes, and units per second."""
    chance = Random(7)
    kinds = []
    for number in range(9):
        picked = chance.sample(CONFIGS, chance.randint(1, 2))
        nodes = {config: chance.randint(1, 2) for config in picked}
        size = sum(n * (1 + CONFIGS.index(c)) for c, n in nodes.items())
        kinds.append((nodes, {CLASSES[number % 3]: float(10 * size + chance.randint(-3, 3))}))
    return kinds


@dataclass
class FleetWorld:
    supply: Supply
    limits: ChangeLimits
    chance: Random
    calm: bool = False
    """Nothing fails any more, and clouds give what they list."""
    now: datetime = START
    fleet: dict[str, Running] = field(default_factory=dict)
    drained_at: list[datetime] = field(default_factory=list)
    rented_at: list[datetime] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    most_held: Counter[str] = field(default_factory=Counter)

    def decide(self, plan: Sequence[Target]) -> MoveSet:
        past = Past(tuple(self.drained_at), tuple(self.rented_at), frozenset(self.used))
        return next_moves(plan, list(self.fleet.values()), self.supply, self.limits, past, self.now)

    def carry_out(self, moves: MoveSet) -> None:
        for launch in moves.launch:
            assert launch.id not in self.used
            self.used.add(launch.id)
            t = launch.target
            new = Instance(launch.id, t.template_id, t.zone, t.market, InstanceState.REQUESTED, ())
            self.fleet[launch.id] = Running(new, t.nodes, t.units_per_s, t.usd_per_hour)
        for drain in moves.drain:
            self.drained_at.append(self.now)
            self._apply(drain.instance_id, EventKind.DRAIN)
        for release in moves.release:
            self._apply(release.instance_id, EventKind.RELEASE)

    def pass_time(self, minutes: int = 1) -> None:
        """Everything on its way comes a step further, or not yet."""
        self.now += minutes * TICK
        for name in list(self.fleet):
            self._live(name)
        held = Counter(node.offer for each in self.fleet.values() for node in each.instance.nodes)
        self.most_held |= held

    @property
    def staying(self) -> Counter[tuple[str, str, Market]]:
        return Counter(r.column for r in self.fleet.values() if r.instance.state not in LEAVING)

    @property
    def usd_per_hour(self) -> float:
        return sum(each.held_usd_per_hour for each in self.fleet.values())

    def _live(self, name: str) -> None:
        state, slow = InstanceState(self.fleet[name].instance.state), self.chance.random() < 0.3
        may_fail = state in (InstanceState.READY, InstanceState.LOADING, InstanceState.DRAINING) and not self.calm
        if may_fail and self.chance.random() < 0.05:
            self._nodes(name, self.fleet[name].instance.nodes[1:])  # preempted
            self._apply(name, EventKind.NODE_LOST)
            return
        if state is InstanceState.READY:
            self.fleet[name] = replace(self.fleet[name], running=self.chance.randint(0, 5))
        elif slow:
            return
        elif state is InstanceState.REQUESTED:
            self._apply(name, EventKind.PROVISION)
        elif state is InstanceState.PROVISIONING:
            self._rent(name)
        elif state is InstanceState.FAILED:
            self._apply(name, EventKind.RELEASE)
        elif state is InstanceState.TERMINATING:
            self._nodes(name, ())
            self._apply(name, EventKind.NODES_GONE)
            del self.fleet[name]
        else:
            self._apply(name, _ON_ITS_WAY[state])

    def _rent(self, name: str) -> None:
        """Node by node, from where there is room; a market may have less than it lists."""
        each = self.fleet[name]
        ledger = Ledger(self.supply)
        for other in self.fleet.values():
            for node in other.instance.nodes:
                ledger.hold(node.offer)
        held = Counter(ledger.config_of(node.offer) for node in each.instance.nodes)
        for config, count in each.nodes.items():
            if held[config] == count:
                continue
            if not self.calm and self.chance.random() < 0.2:
                self._apply(name, EventKind.BROKE)
                return
            offers = ledger.take({config: 1}, each.instance.zone, each.instance.market)
            assert offers is not None, "a launch was decided for which there is no room"
            self.rented_at.append(self.now)
            self._nodes(name, (*each.instance.nodes, *(Node(f"{name}-{len(self.rented_at)}", o) for o in offers)))
            return
        self._apply(name, EventKind.NODES_UP)

    def _nodes(self, name: str, nodes: tuple[Node, ...]) -> None:
        each = self.fleet[name]
        self.fleet[name] = replace(each, instance=replace(each.instance, nodes=nodes))

    def _apply(self, name: str, kind: EventKind) -> None:
        step = advance(self.fleet[name].instance, Event(kind, "in a test"), self.now)
        assert isinstance(step, Transition), step
        self.fleet[name] = replace(self.fleet[name], instance=step.after, running=0)
