"""Homo-joint: homogeneous templates only, but chosen jointly and optimally. What heterogeneity alone is worth."""

from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


def plan_homo_joint(snapshot: Snapshot, library: Library, solve: Solve) -> Plan:
    """The allocator's own optimum over templates whose nodes are all of one configuration."""
    homogeneous = (library.nodes > 0).sum(axis=1) == 1
    return solve(snapshot, library.select(homogeneous), policy="homo_joint")
