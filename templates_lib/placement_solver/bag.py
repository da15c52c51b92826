"""A bag of nodes as compiled code sees it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from templates_lib.placement_solver.compiled import Bytes, Ints, Small, compiled
from templates_lib.placement_solver.patterns import Patterns


class Bag(NamedTuple):
    """One bag: d different configurations, most frequent first, and the K codes of its sub-bags."""

    types: Ints
    """(d,) configurations."""
    nodes: int
    pattern: int
    counts: Bytes
    """(K, 8) nodes of each configuration in a sub-bag; the last row is the whole bag."""
    sizes: Bytes
    """(K,) nodes in a sub-bag."""
    partition_start: NDArray[np.int32]
    """(10,) rows of `partitions` with s blocks are [s] … [s + 1] - 1."""
    partitions: NDArray[np.uint8]


@compiled
def describe_bag(members: Small, patterns: Patterns) -> Bag:
    """The bag of the configurations `members` (n,), non-decreasing, -1 for none."""
    types = np.zeros(8, dtype=np.int64)
    multiplicity = np.zeros(8, dtype=np.int64)
    distinct, nodes = 0, 0
    for config in members:
        if config < 0:
            break
        nodes += 1
        if distinct > 0 and types[distinct - 1] == config:
            multiplicity[distinct - 1] += 1
        else:
            types[distinct] = config
            multiplicity[distinct] = 1
            distinct += 1
    for i in range(1, distinct):
        kind, count, at = types[i], multiplicity[i], i
        while at > 0 and multiplicity[at - 1] < count:
            types[at], multiplicity[at] = types[at - 1], multiplicity[at - 1]
            at -= 1
        types[at], multiplicity[at] = kind, count
    pattern = patterns.first_of_size[nodes]
    while (patterns.multiplicity[pattern] != multiplicity).any():
        pattern += 1
    start, end = patterns.code_start[pattern], patterns.code_start[pattern + 1]
    return Bag(
        types[:distinct],
        nodes,
        pattern,
        patterns.counts[start:end],
        patterns.sizes[start:end],
        patterns.partition_start[pattern],
        patterns.partitions,
    )
