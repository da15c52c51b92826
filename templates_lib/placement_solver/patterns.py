"""Ways to cut a bag of nodes into pipeline stages, once per multiplicity pattern.

A bag is a multiset of node configurations. Its *pattern* is its multiplicities in non-increasing order, so that all
bags of one pattern share their partitions and equal nodes do not repeat. A sub-bag is a *code*: its counts as digits of
a mixed-radix number, most frequent configuration first. The whole bag has the highest code and the complement of a
code is the highest code minus it.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_NODES = 8
"""Nodes of the largest template: codes of eight different nodes just fit a byte."""

Counts = tuple[int, ...]


class Patterns(NamedTuple):
    """All patterns of 1 … n nodes as flat arrays (a named tuple, since numba reads those).

    P patterns ordered by size, K codes in all, Q partitions in all.
    """

    first_of_size: NDArray[np.int32]
    """(MOST_NODES + 2,): patterns of n nodes are rows first_of_size[n] … first_of_size[n + 1] - 1."""
    multiplicity: NDArray[np.int8]
    """(P, 8), zero-padded."""
    distinct: NDArray[np.int32]
    """(P,) different configurations."""
    code_start: NDArray[np.int32]
    """(P + 1,): rows of `counts` and `sizes` that belong to a pattern."""
    counts: NDArray[np.int8]
    """(K, 8) nodes of each configuration in a sub-bag."""
    sizes: NDArray[np.int8]
    """(K,) nodes in a sub-bag."""
    partition_start: NDArray[np.int32]
    """(P, MOST_NODES + 2): partitions into s blocks are rows [p, s] … [p, s + 1] - 1 of `partitions`."""
    partitions: NDArray[np.uint8]
    """(Q, 8) codes of the blocks, non-increasing, zero-padded."""


def _multiplicities(nodes: int, most: int) -> Iterator[Counts]:
    if nodes == 0:
        yield ()
    for first in range(min(nodes, most), 0, -1):
        for rest in _multiplicities(nodes - first, first):
            yield (first, *rest)


def code_of(counts: Counts, multiplicity: Counts) -> int:
    code = 0
    for count, most in zip(counts, multiplicity, strict=True):
        code = code * (most + 1) + count
    return code


def _blocks(left: Counts, previous: Counts) -> Iterator[list[Counts]]:
    """Partitions of `left` into blocks that are lexicographically non-increasing and at most `previous`."""
    lead = next((i for i, count in enumerate(left) if count), None)
    if lead is None:
        yield []
        return
    # The largest block that remains holds the leading configuration that remains.
    for tail in product(*(range(count + 1) for count in left[lead:])):
        block = (*(0,) * lead, *tail)
        if tail[0] and block <= previous:
            rest = tuple(a - b for a, b in zip(left, block, strict=True))
            for others in _blocks(rest, block):
                yield [block, *others]


def _pad(rows: list[list[int]]) -> NDArray[np.uint8]:
    padded = np.zeros((len(rows), MOST_NODES), dtype=np.uint8)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


@lru_cache(maxsize=MOST_NODES)
def patterns(n_max: int) -> Patterns:
    """Patterns of bags of up to `n_max` nodes (1 … 8)."""
    if not 1 <= n_max <= MOST_NODES:
        raise ValueError(f"n_max is {n_max}: a template may have 1 to {MOST_NODES} nodes")
    first_of_size = np.zeros(MOST_NODES + 2, dtype=np.int32)
    shapes: list[Counts] = []
    for nodes in range(1, n_max + 1):
        first_of_size[nodes] = len(shapes)
        shapes += _multiplicities(nodes, nodes)
    first_of_size[n_max + 1 :] = len(shapes)
    counts: list[list[int]] = []
    partitions: list[list[int]] = []
    code_start = [0]
    starts = np.zeros((len(shapes), MOST_NODES + 2), dtype=np.int32)
    for row, shape in enumerate(shapes):
        counts += [list(c) for c in product(*(range(most + 1) for most in shape))]
        code_start.append(len(counts))
        found = [[code_of(block, shape) for block in blocks] for blocks in _blocks(shape, shape)]
        for stages in range(1, MOST_NODES + 1):
            starts[row, stages] = len(partitions)
            partitions += [codes for codes in found if len(codes) == stages]
        starts[row, MOST_NODES + 1] = len(partitions)
    padded = _pad(counts).astype(np.int8)
    return Patterns(
        first_of_size=first_of_size,
        multiplicity=_pad([list(s) for s in shapes]).astype(np.int8),
        distinct=np.array([len(s) for s in shapes], dtype=np.int32),
        code_start=np.array(code_start, dtype=np.int32),
        counts=padded,
        sizes=padded.sum(axis=1).astype(np.int8),
        partition_start=starts,
        partitions=_pad(partitions),
    )
