"""Limits that a cloud account has: quotas as supply pools. Without limits from the user there are no pools."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from control.offers.quotes import OfferError
from templates_lib.values.clouds import cloud_kind
from templates_lib.values.hardware import load_instance_types
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One quota of an account.

    AWS and Azure count vCPUs per region and family (`G-VT`, `P5`, …), GCP GPUs per region and type (`NVIDIA_L4_GPUS`).
    Families are those of `data/hardware/instance_types.csv`; spot has limits of its own.
    """

    cloud: str
    region: str
    family: str
    limit: float
    market: Market = Market.ON_DEMAND

    @property
    def pool_id(self) -> str:
        return f"{self.cloud}/{self.region}/{self.family}/{self.market.value}"


def quota_pools(
    offers: Iterable[Offer], configs: Mapping[str, NodeConfig], limits: Iterable[QuotaLimit]
) -> tuple[SupplyPool, ...]:
    """A pool for each limit that some offer counts against; every node, held ones included, weighs its vCPUs or GPUs.

    Raises OfferError for a family that the cloud does not have, or a limit that is no number ≥ 0.
    """
    listed = tuple(offers)
    pools = []
    for limit in limits:
        _check(limit)
        members = {
            o.key: _weight(o, configs[o.node_config])
            for o in listed
            if (o.cloud, o.region, o.market) == (limit.cloud, limit.region, limit.market)
            and quota_family(o.cloud, configs[o.node_config].gpu, o.instance_type) == limit.family
        }
        if members:
            pools.append(
                SupplyPool(
                    limit.pool_id, limit.limit, cloud_kind(limit.cloud).quotas_count, members, "quota set by the user"
                )
            )
    return tuple(pools)


def _check(limit: QuotaLimit) -> None:
    families = {m.quota_family for m in load_instance_types() if m.cloud == limit.cloud and m.quota_family}
    if limit.family not in families:
        hint = nearest_name(limit.family, families) if families else "that cloud has no quota families here"
        raise OfferError(f"unknown quota family {limit.family!r} of {limit.cloud}; {hint}")
    if not (math.isfinite(limit.limit) and limit.limit >= 0):
        raise OfferError(f"quota {limit.pool_id}: the limit must be 0 or more, is {limit.limit}")


@cache
def quota_family(cloud: str, gpu: str, machine: str) -> str:
    """A derived size counts against the family of the machines with its GPU. Empty: none is known."""
    same = [m for m in load_instance_types() if m.cloud == cloud and m.gpu == gpu]
    return next((m.quota_family for m in same if m.name == machine), same[0].quota_family if same else "")


def _weight(offer: Offer, config: NodeConfig) -> float:
    if cloud_kind(offer.cloud).quotas_count != "vcpus":
        return float(config.gpu_count)
    same = [m for m in load_instance_types() if m.cloud == offer.cloud and m.gpu == config.gpu]
    own = next((m.vcpus for m in same if m.name == offer.instance_type), None)
    return own if own is not None else config.gpu_count * min(m.vcpus / m.gpu_count for m in same)
