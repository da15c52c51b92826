"""The part of the market to look at."""

from dataclasses import dataclass

from templates_lib.values.hardware import InstanceType
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Market, Offer


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
    """True where sizes of `counts` that are not sold are wanted, too (control.offers.derive)."""

    def reads(self, region: str, machine: InstanceType, market: Market) -> bool:
        """Tell whether the price is needed: to offer it, or to derive a size from it."""
        size = self.derived or self.counts is None or machine.gpu_count in self.counts
        return size and self._names(machine.cloud, region, machine.gpu, market)

    def offers(self, offer: Offer, config: NodeConfig) -> bool:
        """Tell whether the offer is one of those asked for."""
        size = self.counts is None or config.gpu_count in self.counts
        made = self.derived or not offer.derived
        return size and made and self._names(offer.cloud, offer.region, config.gpu, offer.market)

    def _names(self, cloud: str, region: str, gpu: str, market: Market) -> bool:
        return (
            cloud == self.cloud
            and (self.regions is None or region in self.regions)
            and (self.gpus is None or gpu in self.gpus)
            and market in self.markets
        )
