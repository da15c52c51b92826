"""What a replay does otherwise than what was recorded."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.baselines import MEDLEY, StrategyName
from policies.forecasts import ForecastName
from templates_lib.values.offer import Market

if TYPE_CHECKING:  # planning is slow to import, and the command line knows these values from its start
    from control.planning.world import World


@dataclass(frozen=True, slots=True)
class Change:
    """Beside what another spec says."""

    strategy: StrategyName = MEDLEY
    forecast: ForecastName | None = None
    """For every model whose demand is metered; None: as the spec has it."""
    unguarded: bool = False
    """Every plan is carried out, whatever its moves earn."""
    on_demand: bool = False
    """No spot node is rented."""

    def applied(self, world: "World") -> "World":
        """A baseline carries out what it plans: the churn guard is Medley's."""
        fleet = world.fleet
        if self.forecast is not None:
            models = [
                model.model_copy(
                    update={
                        "demand": model.demand.model_copy(
                            update={"forecast": model.demand.forecast.model_copy(update={"policy": self.forecast})}
                        )
                    }
                )
                for model in fleet.models
            ]
            fleet = fleet.model_copy(update={"models": models})
        if self.unguarded or self.strategy != MEDLEY:
            reconcile = fleet.reconcile.model_copy(update={"payback_minutes": None})
            fleet = fleet.model_copy(update={"reconcile": reconcile})
        if self.on_demand:
            clouds = [
                section.model_copy(update={"markets": [m for m in section.markets if m is not Market.SPOT]})
                for section in fleet.clouds
            ]
            if not all(section.markets for section in clouds):
                raise ValueError("without spot nodes a cloud of the spec sells nothing: add on-demand to its markets")
            fleet = fleet.model_copy(update={"clouds": clouds})
        return replace(world, fleet=fleet)

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
