"""A shared unit of a plan, for people and programs to read."""

from dataclasses import dataclass

from msgspec import UnsetType

from templates_lib.sources.placement_checks import PlacementError
from templates_lib.sources.placement_kinds import unit_of
from templates_lib.values.gpu import GIB
from templates_lib.values.plan import PlannedInstance
from templates_lib.values.template import Capacity
from templates_lib.values.work import Phase

LIMITS = ("time", "KV cache")
"""What the limits of a unit are of, in their order."""


@dataclass(frozen=True, slots=True)
class SharedMember:
    model: str
    requests_per_s: float
    """Of one unit, that the plan counts on at most; 0: it is there, and none are planned."""
    gpus: int
    """GPUs that it is split over."""
    usd_per_hour: float | None = None
    """What it pays of the rent of all `count` units; None: the plan is older than the split."""


@dataclass(frozen=True, slots=True)
class SharedUnit:
    members: tuple[SharedMember, ...]
    kv_gib: float
    """KV cache that the members share."""


def shared_unit(instance: PlannedInstance) -> SharedUnit | None:
    """Return what an instance is as a unit whose members share a KV cache; None of all others."""
    try:
        unit = unit_of(instance)
    except PlacementError:
        return None
    if not unit.pool_bytes:
        return None
    rates, rents = instance.units_per_s, instance.usd_per_hour_by_member
    usd = {} if isinstance(rents, UnsetType) else rents
    members = (
        SharedMember(
            e.component, rates.get(f"{e.component}/{Phase.AGGREGATED.value}", 0.0), nodes.tp, usd.get(e.component)
        )
        for e in unit.executors
        for _, _, nodes, _ in e.placed()
    )
    return SharedUnit(tuple(members), unit.pool_bytes / GIB)


def used(capacity: Capacity, units_per_s: dict[str, float]) -> dict[str, float]:
    """Return the share of each limit that a mixture takes, by what the limit is of."""
    shares = (sum(limit.get(name, 0.0) * rate for name, rate in units_per_s.items()) for limit in capacity.limits)
    return dict(zip(LIMITS, shares, strict=False))
