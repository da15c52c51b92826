"""Capacity that is ready now, of all fleets."""

from collections import defaultdict
from collections.abc import Iterator

from control.db.database import Database
from control.db.instance_pages import ready_by_target
from control.diff.target import Target
from control.fleet.live_instances import wanted


def capacities(database: Database) -> dict[tuple[str, str], float]:
    """Return units/s that ready instances were planned to sustain together, by fleet and work class. Those whose plan
    is gone are not counted. Raises DatabaseUnavailableError."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for fleet, target, count in ready_targets(database):
        for work_class, units_per_s in target.units_per_s.items():
            found[fleet, work_class] += count * units_per_s
    return dict(found)


def ready_targets(database: Database) -> Iterator[tuple[str, Target, int]]:
    """Yield fleet, what its plan says of equal instances, and how many of these are ready; not of those whose plan is
    gone. Raises DatabaseUnavailableError."""
    for ready in ready_by_target(database):
        for target in wanted(database, ready.plan_id):
            if target.column == ready.column:
                yield ready.fleet, target, ready.count
