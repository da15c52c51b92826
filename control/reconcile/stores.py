"""Stores that the reconcile loop reads and writes."""

from dataclasses import dataclass

from control.db.budgets import PostgresBudgets
from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.events import PostgresEvents
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.node_prices import PostgresNodePrices
from control.db.nodes import PostgresNodes
from control.db.plans import PostgresPlans
from control.reconcile.burst_watch import BurstWatch


@dataclass(frozen=True, slots=True)
class ReconcileStores:
    fleets: PostgresFleets
    plans: PostgresPlans
    events: PostgresEvents
    instances: PostgresInstances
    nodes: PostgresNodes
    intents: PostgresIntents
    budgets: PostgresBudgets
    prices: PostgresNodePrices
    corrections: PostgresCorrections
    bursts: BurstWatch

    @classmethod
    def of(cls, database: Database) -> "ReconcileStores":
        return cls(
            PostgresFleets(database),
            PostgresPlans(database),
            PostgresEvents(database),
            PostgresInstances(database),
            PostgresNodes(database),
            PostgresIntents(database),
            PostgresBudgets(database),
            PostgresNodePrices(database),
            PostgresCorrections(database),
            BurstWatch(database),
        )

    def clouds_in_use(self) -> set[str]:
        """Return the clouds with nodes on record that are not gone, or with calls whose outcome is not known."""
        return self.nodes.clouds() | self.intents.clouds()
