"""Index of bags of nodes by the sum of their nodes' keys, so that a sub-bag's row costs one probe."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from templates_lib.placement_solver.compiled import Keys, Small, compiled
from templates_lib.sources.enumeration import NodeSets

EMPTY = -1


class BagIndex(NamedTuple):
    """Open addressing over bags; a bag's key is the sum of its configurations' keys, modulo 2⁶⁴."""

    keys: Keys
    """(C,) of configurations."""
    sums: Keys
    """(n,) of bags, all different."""
    slots: NDArray[np.int32]
    """(a power of two,) rows of bags."""


@compiled
def _add_keys(members: Small, keys: Keys) -> Keys:
    sums = np.zeros(len(members), dtype=np.uint64)
    for row in range(len(members)):
        for config in members[row]:
            if config >= 0:
                sums[row] += keys[config]
    return sums


@compiled
def _insert_all(index: BagIndex) -> bool:
    """Put every bag in its slot; False if two have the same sum."""
    mask = np.uint64(len(index.slots) - 1)
    for row in range(len(index.sums)):
        slot = index.sums[row] & mask
        while index.slots[slot] != EMPTY:
            if index.sums[index.slots[slot]] == index.sums[row]:
                return False
            slot = (slot + np.uint64(1)) & mask
        index.slots[slot] = row
    return True


@compiled
def row_of(key: np.uint64, index: BagIndex) -> int:
    """The row of the bag whose keys add up to `key`; it must be there."""
    mask = np.uint64(len(index.slots) - 1)
    slot = key & mask
    while index.sums[index.slots[slot]] != key:
        slot = (slot + np.uint64(1)) & mask
    return int(index.slots[slot])


def bag_index(sets: NodeSets) -> BagIndex:
    """The index of all bags of `sets`. Keys are drawn until all sums differ."""
    room = 1 << max(4, (2 * sets.size).bit_length())
    for seed in range(100):
        keys = np.random.default_rng(seed).integers(0, 2**64, size=sets.config_count, dtype=np.uint64)
        index = BagIndex(keys, _add_keys(sets.members, keys), np.full(room, EMPTY, dtype=np.int32))
        if _insert_all(index):
            return index
    raise RuntimeError("the node sets hold the same set twice")
