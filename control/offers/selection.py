"""Which part of the market to look at."""

from collections.abc import Iterable
from dataclasses import dataclass

from templates_lib.hardware import InstanceType
from templates_lib.offer import Market


@dataclass(frozen=True, slots=True)
class Selection:
    """One cloud, narrowed. None means everything that the cloud has."""

    cloud: str
    regions: tuple[str, ...] | None = None
    gpus: tuple[str, ...] | None = None
    counts: tuple[int, ...] | None = None
    """GPUs per node."""
    markets: tuple[Market, ...] = (Market.ON_DEMAND,)
    derived: bool = False
    """Also sizes of `counts` that are not sold (control.offers.derive)."""

    def wants(self, region: str, machine: InstanceType, market: Market) -> bool:
        return (
            machine.cloud == self.cloud
            and (self.regions is None or region in self.regions)
            and (self.gpus is None or machine.gpu in self.gpus)
            and (self.derived or self.counts is None or machine.gpu_count in self.counts)
            and market in self.markets
        )


def wanted(selections: Iterable[Selection], region: str, machine: InstanceType, market: Market) -> bool:
    return any(s.wants(region, machine, market) for s in selections)
