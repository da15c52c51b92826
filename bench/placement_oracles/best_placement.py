"""The best placement of one bag of nodes, exactly."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.placement_solver.bag import describe_bag
from templates_lib.placement_solver.even_kernel import place_evenly
from templates_lib.placement_solver.patterns import MOST_NODES, patterns
from templates_lib.placement_solver.scratch import make_scratch
from templates_lib.placement_solver.uneven_kernel import place_unevenly


@dataclass(frozen=True, slots=True)
class StageCut:
    """One stage: how many layers, which of the table's budgets, and how many nodes of which configuration (index)."""

    layers: int
    budget: int
    counts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BagPlacement:
    """Stages in order, the first with the embedding, the last with the head; `units_per_s` is the slowest one's."""

    units_per_s: float
    stages: tuple[StageCut, ...]


def best_placement(
    units_per_s: NDArray[np.float64], nodes: Mapping[int, int], *, even_split: bool = True
) -> BagPlacement | None:
    """The placement of highest throughput of all layers on all of `nodes` {configuration index: count}; None if 0.

    `units_per_s` (4, B, C, L) is T̂ as in `ThroughputTable`. With `even_split`, budget s - 1 is that of each of s
    stages; otherwise budget b is b + 1 ticks of an objective of B ticks. The optimum of Coral's ILP (section 4.2).
    """
    listed = [config for config, count in sorted(nodes.items()) for _ in range(count)]
    if not 1 <= len(listed) <= MOST_NODES:
        raise ValueError(f"{len(listed)} nodes: a template may have 1 to {MOST_NODES}")
    bag = describe_bag(np.array(listed, dtype=np.int16), patterns(len(listed)))
    cuts = np.zeros((3, MOST_NODES), dtype=np.int16)
    place = place_evenly if even_split else place_unevenly
    units = np.ascontiguousarray(units_per_s)
    best, stages = place(units, bag, 0.0, make_scratch(units.shape[1]), cuts)
    if stages == 0:
        return None
    types = bag.types.tolist()
    return BagPlacement(
        float(best),
        tuple(
            StageCut(
                layers,
                budget,
                tuple(sorted((t, n) for t, n in zip(types, bag.counts[code].tolist(), strict=False) if n)),
            )
            for code, layers, budget in cuts[:, :stages].T.tolist()
        ),
    )
