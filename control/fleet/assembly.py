"""Assembly of what keeps fleets on one database."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from control.cloud.port import Cloud
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.executor.nodes import NodeExecutor
from control.fleet.effects import ThreadEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.publisher import Publisher
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.hub.hub import CHANNEL


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    board: Board
    publisher: Publisher
    effects: ThreadEffects
    keeper: Keeper


def assemble(
    database: Database,
    clouds: Mapping[str, Cloud],
    owner: str,
    gateways: Mapping[str, str],
    table: Path,
    settings: KeeperSettings,
    clock: Callable[[], datetime],
    epoch: Callable[[], int] | None = None,
) -> Assembly:
    """`clouds` may grow later. `owner`: what nodes are tagged with. `gateways`: public key → name. `table`: file that
    gateways read. `epoch`: as in `PostgresIntents`."""
    executor = NodeExecutor(PostgresIntents(database, epoch), clouds, owner, clock)
    stores = FleetStores(PostgresInstances(database), PostgresNodes(database), executor)
    board = Board(gateways, CHANNEL.lost_after_s, time.monotonic())
    publisher, effects = Publisher(table, PostgresApiTokens(database), clock), ThreadEffects()
    keeper = Keeper(stores, board, effects, publisher.publish, settings)
    keeper.expect(publisher.addresses)
    return Assembly(board, publisher, effects, keeper)
