"""Stores that a fleet is kept with: rows and clouds."""

from dataclasses import dataclass

from control.db.instances import PostgresInstances
from control.db.nodes import PostgresNodes
from control.executor.nodes import NodeExecutor


@dataclass(frozen=True, slots=True)
class FleetStores:
    instances: PostgresInstances
    nodes: PostgresNodes
    executor: NodeExecutor
