"""Capacity that is ready now, of all fleets."""

from collections import defaultdict

from control.db.database import Database
from control.db.instance_pages import ready_by_target
from control.fleet.live_instances import wanted


def capacities(database: Database) -> dict[tuple[str, str], float]:
    """Return units/s that ready instances were planned to sustain together, by fleet and work class. Those whose plan
    is gone are not counted. Raises DatabaseUnavailableError."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for ready in ready_by_target(database):
        for target in wanted(database, ready.plan_id):
            if target.column == ready.column:
                for work_class, units_per_s in target.units_per_s.items():
                    found[ready.fleet, work_class] += ready.count * units_per_s
    return dict(found)
