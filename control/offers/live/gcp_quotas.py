"""A GCP project's quotas: GPUs of a type in a region, spot apart."""

from collections.abc import Iterable
from typing import Any

from templates_lib.values.hardware import InstanceType, instance_type
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

_SPOT = "PREEMPTIBLE_"


def quota_pools_of(regions: Iterable[Any], offers: Iterable[Offer]) -> tuple[SupplyPool, ...]:
    """Make the pools of `google.cloud.compute_v1.Region`s. Where there is no quota for spot GPUs, spot counts against
    the other one.

    What others in the project run counts against a quota too, and is not known here.
    """
    listed = [(offer, instance_type(offer.cloud, offer.instance_type)) for offer in offers]
    pools: list[SupplyPool] = []
    for region in regions:
        limits = {quota.metric: float(quota.limit) for quota in region.quotas}
        mine = [(offer, machine) for offer, machine in listed if offer.region == region.name]
        for family in sorted({machine.quota_family for _, machine in mine}):
            own = [(offer, machine) for offer, machine in mine if machine.quota_family == family]
            if limits.get(f"{_SPOT}{family}"):
                for market, metric in ((Market.ON_DEMAND, family), (Market.SPOT, f"{_SPOT}{family}")):
                    part = [(offer, machine) for offer, machine in own if offer.market is market]
                    pools += _pool(f"gcp/{region.name}/{family}/{market.value}", metric, limits, part)
            else:
                pools += _pool(f"gcp/{region.name}/{family}/{Market.ON_DEMAND.value}", family, limits, own)
    return tuple(pools)


def _pool(
    identity: str, metric: str, limits: dict[str, float], own: list[tuple[Offer, InstanceType]]
) -> list[SupplyPool]:
    if not own or metric not in limits:
        return []
    members = {offer.key: float(machine.gpu_count) for offer, machine in own}
    return [SupplyPool(identity, limits[metric], "gpus", members, f"quota {metric}")]
