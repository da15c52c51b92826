"""What a replay does otherwise than what was recorded."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.baselines import MEDLEY

if TYPE_CHECKING:  # planning is slow to import, and the command line knows these values from its start
    from control.planning.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Change:
    """A change of policy beside what another spec says."""

    strategy: str = MEDLEY
    forecast: str | None = None
    """Forecast of every model whose demand is metered; None: as the spec has it."""
    unguarded: bool = False
    """Every plan is carried out, whatever its moves earn."""
    on_demand: bool = False
    """No spot node is rented."""

    def applied(self, fleet: "Fleet") -> "Fleet":
        """A baseline carries out what it plans: the churn guard is Medley's. Raises ValueError as `without_spot`."""
        if self.forecast is not None:
            fleet = fleet.with_forecast(self.forecast)
        if self.unguarded or self.strategy != MEDLEY:
            fleet = fleet.without_churn_guard()
        return fleet.without_spot() if self.on_demand else fleet

    @property
    def words(self) -> tuple[str, ...]:
        """What is changed; empty: nothing."""
        found = []
        if self.strategy != MEDLEY:
            found.append(f"planned by {self.strategy}")
        if self.forecast is not None:
            found.append(f"forecast {self.forecast}")
        if self.unguarded and self.strategy == MEDLEY:
            found.append("without the churn guard")
        if self.on_demand:
            found.append("on-demand nodes only")
        return tuple(found)
