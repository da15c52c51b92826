"""Claims of a library on a template's capacity, which a plan's capacities are compared with."""

from collections.abc import Iterable
from dataclasses import dataclass

import highspy
import numpy as np

from control.checker.violation import slack
from templates_lib.values.library import Library
from templates_lib.values.template import Limit


@dataclass(frozen=True, slots=True)
class Claim:
    nodes: dict[str, int]
    points: tuple[dict[str, float], ...]
    """Operating points: work class id → units per second that one instance sustains at once."""
    engines: str = ""
    """Engines of its nodes, by name; empty: not known."""
    limits: tuple[Limit, ...] = ()
    """What bounds its classes together: the point has the most of each without the others."""

    def allows(self, units_per_s: dict[str, float]) -> bool:
        """Tell whether some mixture of the points, or less, gives these units: Σ λ ≤ 1, Σ λ·point ≥ units; within all
        limits."""
        wanted = {c: u for c, u in units_per_s.items() if u > 0}
        if any(sum(limit.get(c, 0.0) * u for c, u in wanted.items()) > 1 + slack() for limit in self.limits):
            return False
        if len(self.points) == 1 or not wanted:
            return all(self.points[0].get(c, 0.0) + slack(u) >= u for c, u in wanted.items())
        return self._least_mixture(wanted) <= 1 + slack()

    def _least_mixture(self, wanted: dict[str, float]) -> float:
        """Least Σ λ with Σ λ·point ≥ wanted, infinite where no mixture reaches it."""
        model = highspy.Highs()
        model.setOptionValue("output_flag", False)
        for _ in self.points:
            model.addVar(0.0, highspy.kHighsInf)
        count = len(self.points)
        model.changeColsCost(count, np.arange(count, dtype=np.int32), np.ones(count))
        for name, units in wanted.items():
            # Rows are scaled to 1, so that the solver's tolerance is relative to the claim.
            shares = np.array([p.get(name, 0.0) / units for p in self.points])
            model.addRow(1.0, highspy.kHighsInf, count, np.arange(count, dtype=np.int32), shares)
        model.run()
        if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return float("inf")
        return float(model.getInfo().objective_function_value)


def claims_of(library: Library, template_ids: Iterable[str]) -> dict[str, Claim]:
    """The claims of those of `template_ids` that the library holds."""
    found: dict[str, Claim] = {}
    for name in set(template_ids):
        for t in np.flatnonzero(library.ids == name.encode()):
            nodes = {config: int(n) for config, n in zip(library.configs, library.nodes[t], strict=True) if n}
            points = []
            for p in np.flatnonzero(library.point_template == t):
                entries = np.flatnonzero(library.entry_point == p)
                point = {
                    library.classes[int(library.entry_class[e])].id: float(library.entry_units_per_s[e])
                    for e in entries
                }
                points.append(point)
            found[name] = Claim(nodes, tuple(points), library.engine_of(int(t)), tuple(library.limits.get(name, ())))
    return found
