"""Capacity of a fleet by work class, and how much of it may go."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from control.diff.running import Running
from control.diff.target import Target

_ROUNDING = 1e-9


def planned_units(wanted: Iterable[Target]) -> dict[str, float]:
    """Units per second by work class once the plan runs."""
    total: defaultdict[str, float] = defaultdict(float)
    for target in wanted:
        for name, units in target.units_per_s.items():
            total[name] += target.count * units
    return dict(total)


def ready_units(running: Iterable[Running]) -> dict[str, float]:
    """Units per second by work class of the ready instances."""
    total: defaultdict[str, float] = defaultdict(float)
    for each in running:
        if each.is_ready:
            for name, units in each.units_per_s.items():
                total[name] += units
    return dict(total)


class ReadyCapacity:
    """Ready capacity while instances are taken away. Private to one decision."""

    def __init__(self, planned: Mapping[str, float], ready: Mapping[str, float]) -> None:
        self.planned = planned
        self._ready = dict(ready)
        self._floor = {name: min(units, self._ready.get(name, 0.0)) for name, units in planned.items()}

    def spares(self, units_per_s: Mapping[str, float]) -> bool:
        """Tell whether what stays without these is the lesser of what the plan wants and what ran at first."""
        return all(self._above(name, units) >= 0 for name, units in units_per_s.items())

    def loss(self, units_per_s: Mapping[str, float]) -> dict[str, float]:
        """Return what goes below that, by work class; only entries > 0."""
        return {name: -self._above(name, units) for name, units in units_per_s.items() if self._above(name, units) < 0}

    def lacks(self, work_class: str, units: float = 0.0) -> float:
        """Units per second that the plan wants beyond what is ready without `units` of it; 0: there is enough."""
        planned = self.planned.get(work_class, 0.0)
        lacking = planned - self._ready.get(work_class, 0.0) + units
        return lacking if lacking > _ROUNDING * planned else 0.0

    def share(self, work_class: str, coming: float) -> float:
        """Return the share of what the plan wants that is ready or coming."""
        planned = self.planned.get(work_class, 0.0)
        return (self._ready.get(work_class, 0.0) + coming) / planned if planned > 0 else 1.0

    def take(self, units_per_s: Mapping[str, float]) -> None:
        for name, units in units_per_s.items():
            self._ready[name] = self._ready.get(name, 0.0) - units

    def _above(self, name: str, units: float) -> float:
        floor = self._floor.get(name, 0.0)
        above = self._ready.get(name, 0.0) - units - floor
        return 0.0 if abs(above) <= _ROUNDING * max(floor, units) else above
