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
from tests.control.cloud.fake_cloud import FakeCloud
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


@pytest.mark.parametrize("missing", range(1, NODES + 1))
@pytest.mark.parametrize(
    "error", [lambda: StockOutError("none"), lambda: RetryLaterError("busy", 5.0)], ids=["stock-out", "no answer"]
)
def test_what_is_held_for_a_gang_that_is_never_whole_is_bounded(
    database: Database, missing: int, error: Callable[[], CloudError]
) -> None:
    now, passed_s, held_usd = START, 0.0, 0.0
    cloud = ShortCloud(set(range(NODES - missing, NODES)), error)
    executor = NodeExecutor(PostgresIntents(database), {"fake": cloud}, "me", lambda: now)
    instances = PostgresInstances(database)
    stores = FleetStores(instances, PostgresNodes(database), executor)
    settings = KeeperSettings(5.0, timedelta(0), patience=Patience(provisioning=GANG_TIMEOUT))
    keeper = Keeper(stores, Board({}, 1e9, 0.0), InlineEffects(), lambda _: None, settings, lambda: passed_s)
    wish = Target(
        "plan", "chat", template((2, 2, 1, 1)), "fake/here", Market.ON_DEMAND, 1, {"chat/aggregated": 1.0},
        NODES * PRICE_USD_PER_HOUR,
    )  # fmt: skip
    order = FleetOrder("f", (wish,), supply=supply_of([OFFER], (), {}, 0), starts={"fake": NodeStart(("true",))})
    keeper.keep(order)
    first = ""
    while now < START + 2 * GANG_TIMEOUT:
        keeper.tick()
        first = first or next((i.id for i in keeper.known), "")
        mine = cloud.list({"medley-instance": first}, now) if first else ()
        held_usd += len(mine) * PRICE_USD_PER_HOUR * STEP.total_seconds() / 3600
        now, passed_s = now + STEP, passed_s + STEP.total_seconds()
    assert instances.load(first).state == "terminated"
    assert held_usd <= NODES * PRICE_USD_PER_HOUR * (GANG_TIMEOUT + 2 * STEP).total_seconds() / 3600
    keeper.forget("f")
    for _ in range(20):
        keeper.tick()
        now, passed_s = now + STEP, passed_s + STEP.total_seconds()
    assert cloud.list({}, now) == ()
    assert PostgresNodes(database).held("fake") == {}
    assert executor.intents.open("fake") == ()
