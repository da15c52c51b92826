"""What the reconcile loop reads and writes."""

from dataclasses import dataclass

from control.db.database import Database
from control.db.events import PostgresEvents
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.plans import PostgresPlans


@dataclass(frozen=True, slots=True)
class ReconcileStores:
    fleets: PostgresFleets
    plans: PostgresPlans
    events: PostgresEvents
    instances: PostgresInstances

    @classmethod
    def of(cls, database: Database) -> "ReconcileStores":
        return cls(
            PostgresFleets(database), PostgresPlans(database), PostgresEvents(database), PostgresInstances(database)
        )
