"""A control plane that is killed between any two effects of launch, replace, drain and terminate leaves nothing leaked
and nothing doubled: the next one goes on from what is on record and what clouds list. Enumerated, not sampled."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import Connection, text

from control.db.database import Database
from control.db.nodes import PostgresNodes
from control.diff.supply import supply_of
from control.diff.target import Target
from control.executor.node_start import NodeStart
from control.fleet.effects import InlineEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.order import FleetOrder
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState as S
from templates_lib.values.offer import Market, Offer
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.executor.fleets import Fleet, MortalCloud, MortalDatabase, ProcessKilledError, Steps, fleet
from tests.control.fleet.fleets import template
from tests.control.lifecycle.worlds import START

NODES = 2
"""Of an instance."""
MANY = 2000
NEXT = {
    S.BOOTSTRAPPING: (EventKind.AGENTS_UP, EventKind.LOADED),
    S.LOADING: (EventKind.LOADED,),
    S.DRAINING: (EventKind.DRAINED,),
}


def wish(layers: tuple[int, ...], plan_id: str) -> Target:
    return Target(plan_id, "chat", template(layers), "fake/here", Market.ON_DEMAND, 1, {"chat/aggregated": 2.0}, 2.0)


OLD, NEW = wish((4, 2), "plan-1"), wish((3, 3), "plan-2")
PHASES = ((OLD,), (NEW,), ())
"""Launch; replace, which drains and terminates what was there; end."""


class DeadlyWrites(MortalDatabase):
    """Dies before commits of what has written something. To die around a look, or after a commit, is to die before what
    comes next: the world is the same."""

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with Database.transaction(self) as connection:
            yield connection
            wrote = connection.execute(text("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")).scalar_one()
            if wrote:
                self.steps.take("before a commit")


@dataclass
class Life:
    """`stock` has room for old and new side by side and for no node more: whoever rents one twice runs out."""

    database: Database
    cloud: FakeCloud = field(default_factory=lambda: FakeCloud("fake", {"small": 2 * NODES}))
    seconds: float = 0.0
    most: int = 0

    def keeper(self, medley: Fleet) -> Keeper:
        stores = FleetStores(medley.instances, medley.nodes, medley.executor)
        board, settings = Board({}, 1e9, 0.0), KeeperSettings(1.0, timedelta(0))
        return Keeper(stores, board, InlineEffects(), lambda _: None, settings, lambda: self.seconds)

    def run(self, keeper: Keeper, wanted: tuple[Target, ...]) -> None:
        """Until the fleet is as wanted. Raises ProcessKilledError where its stores do."""
        offer = Offer("fake", "here", "here", "small", "small:1/n10", Market.ON_DEMAND, 1.0, 2 * NODES)
        supply = supply_of([offer], (), {}, 0)
        keeper.keep(FleetOrder("f", wanted, (OLD, NEW), supply, starts={"fake": NodeStart(("true",))}))
        keeper.load()
        for _ in range(200):
            if self.is_as(wanted):
                return
            self.seconds += 0.25
            keeper.tick()
            self.nodes_report()
            self.most = max(self.most, len(self.cloud.list({}, START)))
        raise AssertionError(f"{self.states()} after {self.seconds} s")

    def nodes_report(self) -> None:
        """Nodes do what they are for, whoever is killed."""
        alive = fleet(self.database, self.cloud)
        for instance in alive.instances.living():
            for kind in NEXT.get(S(instance.state), ()):
                alive.instances.apply(instance.id, Event(kind, "its nodes say so"), START)

    def states(self) -> dict[str, str]:
        return {i.id: i.state for i in fleet(self.database, self.cloud).instances.living()}

    def is_as(self, wanted: tuple[Target, ...]) -> bool:
        living = fleet(self.database, self.cloud).instances.living()
        there = sorted((i.template_id, i.state) for i in living)
        return there == sorted((w.template.id, S.READY) for w in wanted)

    def check(self, wanted: tuple[Target, ...]) -> None:
        """What exists is what is wanted, is on record as rented, and nothing is open."""
        listed = {node.name for node in self.cloud.list({}, START)}
        held = PostgresNodes(self.database).held("fake")
        assert set(held) == listed
        assert all(node.created_at is not None for node in held.values())
        assert len(listed) == NODES * len(wanted)
        assert fleet(self.database, self.cloud).executor.intents.open("fake") == ()
        assert self.most <= 2 * NODES


def live_and_die(database: Database, step: int) -> str:
    """Where it was killed; empty: nowhere, it has come to its end before."""
    life, steps = Life(database), Steps(step)
    mortal = DeadlyWrites(database.engine, database.name, steps=steps)
    medley = fleet(mortal, MortalCloud(life.cloud, steps))
    for wanted in PHASES:
        try:
            life.run(life.keeper(medley), wanted)
        except ProcessKilledError:
            medley = fleet(database, life.cloud)  # from now on nothing is killed
            life.run(life.keeper(medley), wanted)
        life.keeper(fleet(database, life.cloud)).load()
        life.check(wanted)
    return steps.where


def test_killed_at_every_step_the_next_one_goes_on(database: Database) -> None:
    deaths = []
    for step in range(MANY):
        where = live_and_die(database, step)
        if not where:
            break
        deaths.append(where)
    assert 50 < len(deaths) < MANY
    assert {" ".join(where.split()[:2]) for where in deaths} >= {
        "before create", "after create", "before terminate", "after terminate", "before list", "before a",
    }  # fmt: skip
