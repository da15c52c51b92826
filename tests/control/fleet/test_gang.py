"""A gang that cannot be whole costs no more than its time-out allows, and leaves nothing: for every k of n missing."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from control.cloud.errors import CloudError, RetryLaterError, StockOutError
from control.cloud.node import CloudNode, NodeRequest
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.diff.supply import supply_of
from control.diff.target import Target
from control.executor.node_start import NodeStart
from control.executor.nodes import NodeExecutor
from control.fleet.effects import InlineEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.order import FleetOrder
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.lifecycle.patience import Patience
from templates_lib.values.offer import Market, Offer
from tests.control.cloud.fake_cloud import Effect, FakeCloud
from tests.control.fleet.fleets import template
from tests.control.lifecycle.worlds import START

NODES = 4
PRICE_USD_PER_HOUR = 3.0
GANG_TIMEOUT = timedelta(minutes=10)
STEP = timedelta(seconds=15)
OFFER = Offer("fake", "here", "here", "small", "small:1/n10", Market.ON_DEMAND, PRICE_USD_PER_HOUR, NODES)


class ShortCloud(FakeCloud):
    """Does not give the nodes of some places."""

    def __init__(self, missing: set[int], error: Callable[[], CloudError]) -> None:
        super().__init__("fake", {"small": NODES})
        self._missing = missing
        self._error = error

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        if int(request.name.split("-")[2]) in self._missing:
            raise self._error()
        return super().create(request, now)


class QueueingCloud(FakeCloud):
    """Has launches wait for their turn until `settle`, again and again those that are asked for again."""

    has_turn = False

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        if not self.has_turn:
            self.fail_next("create", RetryLaterError("asked for, and not there yet", 5.0), Effect.QUEUED)
        return super().create(request, now)


class Kept:
    """A keeper of one gang on its own clock."""

    def __init__(self, database: Database, cloud: FakeCloud) -> None:
        self.now, self.passed_s = START, 0.0
        self.executor = NodeExecutor(PostgresIntents(database), {"fake": cloud}, "me", lambda: self.now)
        self.instances = PostgresInstances(database)
        stores = FleetStores(self.instances, PostgresNodes(database), self.executor)
        settings = KeeperSettings(5.0, timedelta(0), patience=Patience(provisioning=GANG_TIMEOUT))
        board = Board({}, 1e9, 0.0)
        self.keeper = Keeper(stores, board, InlineEffects(), lambda _: None, settings, lambda: self.passed_s)
        wish = Target(
            "plan", "chat", template((2, 2, 1, 1)), "fake/here", Market.ON_DEMAND, 1, {"chat/aggregated": 1.0},
            NODES * PRICE_USD_PER_HOUR,
        )  # fmt: skip
        supply = supply_of([OFFER], (), {}, 0)
        self.keeper.keep(FleetOrder("f", (wish,), supply=supply, starts={"fake": NodeStart(("true",))}))

    def step(self) -> None:
        self.keeper.tick()
        self.now, self.passed_s = self.now + STEP, self.passed_s + STEP.total_seconds()


@pytest.mark.parametrize("missing", range(1, NODES + 1))
@pytest.mark.parametrize(
    "error", [lambda: StockOutError("none"), lambda: RetryLaterError("busy", 5.0)], ids=["stock-out", "no answer"]
)
def test_what_is_held_for_a_gang_that_is_never_whole_is_bounded(
    database: Database, missing: int, error: Callable[[], CloudError]
) -> None:
    cloud, held_usd = ShortCloud(set(range(NODES - missing, NODES)), error), 0.0
    kept = Kept(database, cloud)
    first = ""
    while kept.now < START + 2 * GANG_TIMEOUT:
        at = kept.now
        kept.step()
        first = first or next((i.id for i in kept.keeper.known), "")
        mine = cloud.list({"medley-instance": first}, at) if first else ()
        held_usd += len(mine) * PRICE_USD_PER_HOUR * STEP.total_seconds() / 3600
    assert kept.instances.load(first).state == "terminated"
    assert held_usd <= NODES * PRICE_USD_PER_HOUR * (GANG_TIMEOUT + 2 * STEP).total_seconds() / 3600
    kept.keeper.forget("f")
    for _ in range(20):
        kept.step()
    assert cloud.list({}, kept.now) == ()
    assert PostgresNodes(database).held("fake") == {}
    assert kept.executor.intents.open("fake") == ()


def test_a_gang_is_waited_for_while_its_launches_are_queued(
    database: Database,
) -> None:
    cloud = QueueingCloud("fake", {"small": NODES})
    kept = Kept(database, cloud)
    while kept.now < START + 3 * GANG_TIMEOUT:
        kept.step()
    (instance,) = kept.keeper.known
    assert instance.state == "provisioning"
    cloud.has_turn = True
    cloud.settle()
    kept.step()
    kept.step()
    assert kept.instances.load(instance.id).state == "bootstrapping"
