"""The port to the allocator: baselines and shells receive it as an argument."""

from collections.abc import Collection
from math import inf
from typing import Protocol

from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


class Solve(Protocol):
    def __call__(
        self,
        snapshot: Snapshot,
        library: Library,
        *,
        policy: str = "medley",
        known: Collection[Plan] = (),
        least: float = -inf,
    ) -> Plan:
        """The cheapest plan over the templates of `library`; its `policy` is set to the argument. `known`: plans of
        snapshots much like this one, to begin from. `least`: what the objective of a plan that leaves nothing unmet is
        known to be at least."""
        ...
