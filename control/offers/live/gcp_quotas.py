"""Quotas of a GCP project: GPUs by region and type, vCPUs and GPUs of all regions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from control.offers.live.gcp_access import TIMEOUT_S, GcpAccess, asked, gcp_access, regions_of, retry
from control.offers.live.source import SourceError
from control.offers.quota import Quota, QuotaAnswer
from templates_lib.values.hardware import InstanceType, instance_type
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

_SPOT = "PREEMPTIBLE_"
_BEFORE_H100 = frozenset(
    {"NVIDIA_T4_GPUS", "NVIDIA_L4_GPUS", "NVIDIA_V100_GPUS", "NVIDIA_A100_GPUS", "NVIDIA_A100_80GB_GPUS"}
)
"""Quotas that GPUS_ALL_REGIONS holds for, too: later GPUs have global quotas by family, which are not in this list."""
_Listed = Sequence[tuple[Offer, InstanceType]]


def gcp_quotas(offers: Sequence[Offer], environment: Mapping[str, str]) -> QuotaAnswer:
    """Read the quotas that nodes of `offers` count against. Raises SourceError where none can be read; needed are
    compute.regions.list and compute.projects.get."""
    access = gcp_access(environment)
    listed = [(offer, instance_type(offer.cloud, offer.instance_type)) for offer in offers]
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={access.project}"
    quotas: list[Quota] = []
    for region in asked(lambda: list(regions_of(access)), "quotas of regions"):
        used = {quota.metric: float(quota.usage) for quota in region.quotas}
        for metric, pool in _pools_of(region, listed):
            quotas.append(Quota(pool, used[metric], page))
    try:
        project = asked(lambda: _project_quotas(access), "quotas of the project")
    except SourceError as error:
        return QuotaAnswer(tuple(quotas), (f"gcp: {error}",))
    for metric, (limit, in_use) in project.items():
        if shared := _of_project(metric, limit, listed):
            quotas.append(Quota(shared, in_use, page))
    return QuotaAnswer(tuple(quotas))


def _project_quotas(access: GcpAccess) -> dict[str, tuple[float, float]]:
    """Return limit and usage by metric."""
    from google.cloud import compute_v1

    client = access.client(compute_v1.ProjectsClient, "COMPUTE")
    request = compute_v1.GetProjectRequest(project=access.project)
    found = client.get(request=request, retry=retry(), timeout=TIMEOUT_S)
    return {quota.metric: (float(quota.limit), float(quota.usage)) for quota in found.quotas}


def _of_project(metric: str, limit: float, listed: _Listed) -> SupplyPool | None:
    """Spot counts here as on demand does."""
    match metric:
        case "CPUS_ALL_REGIONS":
            unit, members = "vcpus", {offer.key: machine.vcpus for offer, machine in listed}
        case "GPUS_ALL_REGIONS":
            own = [(offer, machine) for offer, machine in listed if machine.quota_family in _BEFORE_H100]
            unit, members = "gpus", {offer.key: float(machine.gpu_count) for offer, machine in own}
        case _:
            return None
    return SupplyPool(f"gcp/all/{metric}", limit, unit, members, f"quota {metric}") if members else None


def quota_pools_of(regions: Iterable[Any], offers: Iterable[Offer]) -> tuple[SupplyPool, ...]:
    """Make the pools of `google.cloud.compute_v1.Region`s.

    What others in the project run counts against a quota too, and is not known here.
    """
    listed = [(offer, instance_type(offer.cloud, offer.instance_type)) for offer in offers]
    return tuple(pool for region in regions for _, pool in _pools_of(region, listed))


def _pools_of(region: Any, listed: _Listed) -> Iterator[tuple[str, SupplyPool]]:
    """Yield the pools of a region, each with its metric. Where there is no quota for spot GPUs, spot counts against the
    other one."""
    limits = {quota.metric: float(quota.limit) for quota in region.quotas}
    mine = [(offer, machine) for offer, machine in listed if offer.region == region.name]
    for family in sorted({machine.quota_family for _, machine in mine}):
        own = [(offer, machine) for offer, machine in mine if machine.quota_family == family]
        parts = [(family, Market.ON_DEMAND.value, own)]
        if limits.get(f"{_SPOT}{family}"):
            parts = [
                (metric, market.value, [(offer, machine) for offer, machine in own if offer.market is market])
                for market, metric in ((Market.ON_DEMAND, family), (Market.SPOT, f"{_SPOT}{family}"))
            ]
        for metric, market, part in parts:
            if part and metric in limits:
                members = {offer.key: float(machine.gpu_count) for offer, machine in part}
                identity = f"gcp/{region.name}/{family}/{market}"
                yield metric, SupplyPool(identity, limits[metric], "gpus", members, f"quota {metric}")
