"""Places every node set of a family, smaller sets first, so that a larger one knows what its parts serve."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from templates_lib.placement_solver.bag import describe_bag
from templates_lib.placement_solver.bag_index import bag_index
from templates_lib.placement_solver.bag_kernel import Placed, place_bags_evenly, place_bags_unevenly
from templates_lib.placement_solver.compiled import Ints, Small, compiled
from templates_lib.placement_solver.found import FoundPlacements
from templates_lib.placement_solver.patterns import Patterns, patterns
from templates_lib.sources.enumeration import NodeSets

CHUNK = 4096
"""Bags between two looks at whether to go on: a few hundredths of a second."""


def find_placements(
    units_per_s: NDArray[np.float64],
    sets: NodeSets,
    *,
    even_split: bool,
    prune: bool,
    elsewhere: NDArray[np.float64] | None = None,
    advance: Callable[[int], None],
) -> FoundPlacements:
    """The best placement of every set. `units_per_s` (4, B, C, L) as in `best_placement`, for `sets.n_max` stages.

    With `prune`, only templates that serve more than their nodes do as several smaller templates: no allocation needs
    the others, whatever the prices (design, "Pruning without loss"). `elsewhere` (C,): units/s that one node of a
    configuration serves by a template that is not made here; where that is more than 0, none is made of that node
    alone. `advance` is called with the sets done so far and may raise to stop.
    """
    units = np.ascontiguousarray(units_per_s, dtype=np.float64)
    table, index = patterns(sets.n_max), bag_index(sets)
    place = place_bags_evenly if even_split else place_bags_unevenly
    placed = Placed(
        np.zeros(sets.size),
        np.zeros(sets.size),
        np.zeros(sets.size, dtype=np.int32),
        np.zeros(sets.size, dtype=np.int8),
        np.zeros((sets.size, 3, 8), dtype=np.int16),
    )
    for nodes in range(1, sets.n_max + 1):
        level_end = int(sets.first_of_size[nodes + 1])
        for first in range(int(sets.first_of_size[nodes]), level_end, CHUNK):
            end = min(first + CHUNK, level_end)
            place(units, table, sets.members, not prune, index, first, end, placed)
            advance(end)
        if nodes == 1 and elsewhere is not None:
            _leave_out(placed, sets, elsewhere)
    return _collect(placed, sets, table)


def _leave_out(placed: Placed, sets: NodeSets, elsewhere: NDArray[np.float64]) -> None:
    """Leave single nodes to the templates that serve them elsewhere: larger sets have to beat those as their parts."""
    alone = slice(int(sets.first_of_size[1]), int(sets.first_of_size[2]))
    others = elsewhere[sets.members[alone, 0]]
    placed.units_per_s[alone] = np.where(others > 0, 0.0, placed.units_per_s[alone])
    placed.served[alone] = np.maximum(placed.served[alone], others)


@compiled
def _types_of(members: Small, patterns: Patterns) -> Ints:
    """(n, 8) configurations that the digits of a code stand for."""
    types = np.zeros((len(members), 8), dtype=np.int64)
    for row in range(len(members)):
        of_bag = describe_bag(members[row], patterns).types
        types[row, : len(of_bag)] = of_bag
    return types


def _collect(placed: Placed, sets: NodeSets, table: Patterns) -> FoundPlacements:
    rows = np.flatnonzero(placed.units_per_s > 0)
    codes, layers, budgets = (placed.cuts[rows, field].astype(np.int64) for field in range(3))
    stages = placed.stages[rows]
    counts = table.counts[table.code_start[placed.patterns[rows]][:, None] + codes]
    counts[np.arange(8)[None, :] >= stages[:, None]] = 0
    template, stage, digit = np.nonzero(counts)
    config = _types_of(sets.members[rows], table)[template, digit]
    order = np.lexsort((config, stage, template))
    template, stage, config = template[order], stage[order], config[order]
    return FoundPlacements(
        possible=int(np.count_nonzero(placed.served > 0)),
        rows=rows,
        units_per_s=placed.units_per_s[rows],
        stages=stages,
        share_template=template,
        share_stage=stage,
        share_config=config,
        share_nodes=counts[template, stage, digit[order]].astype(np.int64),
        share_layers=layers[template, stage],
        share_budget=budgets[template, stage],
    )
