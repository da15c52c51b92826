"""Load that was offered, step by step: what forecasts start from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from policies.forecast import Rates
from policies.metered_work import MeteredClass
from templates_lib.values.work import Unit


@dataclass(frozen=True, slots=True, eq=False)
class DemandHistory:
    """Load of one request type, over all gateways, the oldest step first. Raises ValueError when lengths differ."""

    end_s: float
    """End of the last step, Unix seconds."""
    step_s: float
    requests_per_s: Rates
    """(n,); n may be 0."""
    units_per_s: Mapping[tuple[str, Unit], Rates]
    """(n,) by work class and unit."""

    def __post_init__(self) -> None:
        if any(rates.shape != self.requests_per_s.shape for rates in self.units_per_s.values()):
            raise ValueError("a history has one rate a step of each work class")

    def planned_requests_per_s(self, work: Iterable[MeteredClass]) -> Rates:
        """(n,) requests of the planned sizes that would be as much work, of whichever class is most: sizes that have
        drifted must not leave any class short."""
        known = [self.units_per_s[each.key] / each.units_per_request for each in work if each.key in self.units_per_s]
        return np.max(known, axis=0) if known else self.requests_per_s

    def of_unit(self, unit: Unit) -> Rates:
        """(n,) units/s, all work classes together."""
        own = [rates for (_, its), rates in self.units_per_s.items() if its is unit]
        return np.sum(own, axis=0) if own else np.zeros_like(self.requests_per_s)
