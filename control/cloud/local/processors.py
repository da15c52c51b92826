"""Which processor a small node keeps to.

The kernel hands a control group its quota in slices (`sched_cfs_bandwidth_slice_us`, 5 ms), each to one processor. Of a
node whose threads run on two, a thread that wakes for a moment takes a slice there, and what it leaves of that is lost
until the period ends: beside links that sent KV caches, engines got 0.61 to 0.66 of a processor where the node had 0.7.
On one processor there is nobody to lose it to. (Kernel documentation: scheduler/sched-bwc.rst, "CFS Bandwidth Quota
Caveats".)
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from control.cloud.local.cgroup import GroupBase, processes

_FULL = 1.0 + 1e-9
"""Shares are decimal fractions, whose sums are not."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A node that is there already."""

    cpu_cores: float
    processors: frozenset[int]
    """Those that it may use."""


def processor_for(cpu_cores: float, usable: Iterable[int], tenants: Iterable[Tenant]) -> int | None:
    """Return the least used of the `usable` processors, where the node fits beside those that keep to it; None where it
    fits on none, or is of more than one processor. One that may use several is taken to use all of them alike."""
    used = dict.fromkeys(sorted(usable), 0.0)
    for tenant in tenants:
        for processor in tenant.processors & used.keys():
            used[processor] += tenant.cpu_cores / len(tenant.processors)
    least = min(used, key=lambda processor: used[processor], default=None)
    return None if least is None or used[least] + cpu_cores > _FULL else least


def usable_processors() -> frozenset[int]:
    """Those that this process may use; none on a system that does not say."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def tenants_of(base: GroupBase, prefix: str) -> Iterator[Tenant]:
    """Nodes of all local clouds of this machine, by their control groups, whose names begin with `prefix`. A group that
    nobody is in is none."""
    for group in base.path.glob(f"{prefix}*"):
        cpu_cores, found = base.cpu_cores(group), _affinity(group)
        if cpu_cores is not None and found:
            yield Tenant(cpu_cores, found)


@contextmanager
def on_processor(processor: int | None) -> Iterator[None]:
    """Have processes that this thread starts meanwhile keep to it, with all their threads and children."""
    if processor is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _affinity(group: Path) -> frozenset[int]:
    for pid in processes(group):
        try:
            return frozenset(os.sched_getaffinity(pid))
        except OSError:
            continue  # it has ended since
    return frozenset()
