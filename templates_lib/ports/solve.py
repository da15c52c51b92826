"""The port to the allocator: baselines and shells receive it as an argument."""

from typing import Protocol

from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


class Solve(Protocol):
    def __call__(self, snapshot: Snapshot, library: Library, *, policy: str = "medley") -> Plan:
        """The cheapest plan over the templates of `library`; its `policy` is set to the argument."""
        ...
