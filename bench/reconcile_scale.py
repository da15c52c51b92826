"""How a round of the fast loop grows with the fleet: `python -m bench.reconcile_scale`.

Instances of ten nodes each on a new embedded PostgreSQL, all ready and heard of every five seconds, at a cloud in
memory, as many planned as run. Measured is one round that only looks, and one that repairs: rows against the cloud's
list, heartbeats written. The baseline is the same loop over 10 nodes. Bar: a round that repairs 10,000 nodes takes at
most 2 s, and the process at most 350 MB (500 with the API's). Exits with 1 when a bar is missed.
"""

import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from sqlalchemy import insert

from agents.messages.to_hub import NodeReport
from control.cloud.node import NodeRequest
from control.db.database import Database, open_database
from control.db.fleet_tables import instance as instance_table
from control.db.fleet_tables import node as node_table
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.diff.supply import supply_of
from control.diff.target import Target
from control.executor.nodes import OWNER_TAG, NodeExecutor
from control.fleet.effects import InlineEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.order import FleetOrder
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.lifecycle.state import InstanceState
from templates_lib.values.offer import Market, Offer
from templates_lib.values.placement import PipelinePlacement, Placement, Stage, StageNodes
from templates_lib.values.template import ServingTemplate, template_id
from tests.control.cloud.fake_cloud import FakeCloud

NODES = 10
"""Of an instance."""
SIZES = (1, 10, 100, 1000)
ROUNDS = 5
BAR_S = 2.0
BAR_MB = 350
CONFIG, ZONE = "small:1/n10", "fake/here"


def template() -> ServingTemplate:
    from msgspec import to_builtins

    node = StageNodes(CONFIG, 1, 1.0, 1, 1, 1, 1, 4, 16, 24)
    stages = tuple(Stage(n, 1, n == 0, n == NODES - 1, (node,)) for n in range(NODES))
    placement = Placement("pipeline", 1, to_builtins(PipelinePlacement(stages)))
    parts = ("tiny", "r1", "fp32", "torch", "lockstep-v1", {CONFIG: NODES}, placement)
    return ServingTemplate(template_id(*parts), *parts)


def fill(database: Database, cloud: FakeCloud, of: ServingTemplate, first: int, last: int, now: datetime) -> None:
    """Instances `first` to `last`, ready, and their nodes at the cloud."""
    instances, nodes = [], []
    for number in range(first, last):
        name = f"i{number:012x}"
        instances.append(
            {
                "id": name, "fleet": "f", "plan_id": "plan", "template_id": of.id, "template": of, "zone": ZONE,
                "market": Market.ON_DEMAND, "state": InstanceState.READY, "version": 4, "state_since": now,
            }
        )  # fmt: skip
        for place in range(NODES):
            node = f"medley-{name}-{place}-0"
            request = NodeRequest(node, "here", "here", "small", Market.ON_DEMAND, {OWNER_TAG: "me"}, ("true",))
            made = cloud.create(request, now)
            nodes.append(
                {
                    "name": node, "instance_id": name, "place": place, "offer": "fake/here/small/on-demand",
                    "cloud": "fake", "provider_id": made.provider_id, "requested_at": now, "created_at": now,
                    "usd_per_hour": 1,
                }
            )  # fmt: skip
    with database.transaction() as connection:
        connection.execute(insert(instance_table), instances)
        connection.execute(insert(node_table), nodes)


def measure(
    database: Database, cloud: FakeCloud, of: ServingTemplate, count: int, now: datetime
) -> tuple[float, float]:
    """Median seconds of a round that looks, and of one that repairs."""
    executor = NodeExecutor(PostgresIntents(database), {"fake": cloud}, "me", lambda: now)
    stores = FleetStores(PostgresInstances(database), PostgresNodes(database), executor)
    passed = [0.0]
    board = Board({}, 1e9, 0.0)
    settings = KeeperSettings(5.0, timedelta(minutes=2))
    keeper = Keeper(stores, board, InlineEffects(), lambda _: None, settings, lambda: passed[0])
    wanted = Target("plan", "chat", of, ZONE, Market.ON_DEMAND, count, {"chat/aggregated": 2.0}, 10.0)
    offer = Offer("fake", "here", "here", "small", CONFIG, Market.ON_DEMAND, 1.0, 0)
    keeper.keep(FleetOrder("f", (wanted,), supply=supply_of([offer], (), {offer.key: count * NODES}, 0)))
    keeper.load()
    for held in stores.nodes.held("fake").values():
        board.joined(held.name, 0.0)
        board.reported(held.name, NodeReport(held.instance_id))
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * ROUNDS + 2):
        repairs = number % 2 == 1
        passed[0] += 6.0 if repairs else 0.25
        began = time.perf_counter()
        keeper.tick()
        times[repairs].append(time.perf_counter() - began)
    assert len(cloud.list({}, now)) == count * NODES
    assert {i.state for i in keeper.known} == {InstanceState.READY}
    return statistics.median(times[False][1:]), statistics.median(times[True][1:])


def main() -> int:
    of, now, cloud = template(), datetime(2026, 11, 21, 12, tzinfo=UTC), FakeCloud("fake", {"small": 10**6})
    print("nodes  instances  look_ms  repair_ms  ratio_to_first  process_mb")
    first = worst_s = 0.0
    with tempfile.TemporaryDirectory() as folder, open_database(data_dir=Path(folder)) as database:
        before = 0
        for count in SIZES:
            fill(database, cloud, of, before, count, now)
            before = count
            look_s, worst_s = measure(database, cloud, of, count, now + timedelta(minutes=5))
            first = first or worst_s
            mb = psutil.Process().memory_info().rss / 1e6
            row = f"{count * NODES:5}  {count:9}  {1000 * look_s:7.1f}  {1000 * worst_s:9.1f}"
            print(f"{row}  {worst_s / first:14.1f}  {mb:10.0f}")
    ok = worst_s <= BAR_S and mb <= BAR_MB
    print(f"bars (repair <= {BAR_S:g} s, process <= {BAR_MB} MB): {'met' if ok else 'MISSED'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
