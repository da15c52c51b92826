"""Corrections of certified capacities in PostgreSQL, by fleet and work class."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.reconcile_tables import correction as correction_table
from policies.correction import Correction


@dataclass(frozen=True, slots=True)
class PostgresCorrections:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def of_fleet(self, fleet: str) -> dict[str, Correction]:
        """Return the corrections by work class, those of factor 1 among them, which were given back."""
        query = select(correction_table).where(correction_table.c.fleet == fleet)
        return {
            row.work_class: Correction(
                row.factor,
                row.changed_at.astimezone(UTC),
                row.reason,
                row.was_given_back,
                row.fell_short_at,
                row.relapses,
                row.cost_model,
            )
            for row in self.database.read(query.order_by(correction_table.c.work_class))
        }

    def put(self, fleet: str, corrections: Mapping[str, Correction]) -> None:
        """Put corrections, by work class, in the place of the stored ones. The fleet has to be on record."""
        for work_class, each in corrections.items():
            values = {
                "factor": each.factor,
                "changed_at": each.changed_at,
                "reason": each.reason,
                "was_given_back": each.was_given_back,
                "fell_short_at": each.fell_short_at,
                "relapses": each.relapses,
                "cost_model": each.cost_model,
            }
            new = insert(correction_table).values(values | {"fleet": fleet, "work_class": work_class})
            keys = [correction_table.c.fleet, correction_table.c.work_class]
            self.database.write(new.on_conflict_do_update(index_elements=keys, set_=values))
