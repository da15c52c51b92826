"""Capacity of a running placement under an objective that it was not made for."""

from collections.abc import Mapping, Sequence

import numpy as np

from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.phase_work import Curve, RunningNode
from templates_lib.throughput.phases import NodePhases
from templates_lib.throughput.request import own_shares
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.placement import Stage, StageNodes
from templates_lib.values.throughput_table import StageRole


def sustained_units_per_s(
    phases: NodePhases, stages: Sequence[Stage], configs: Mapping[str, NodeConfig], *, even_split: bool
) -> float:
    """The most units/s of the phase of `phases` within its model's objective, 0 where it cannot be kept.

    How nodes split their layers, the share of the work that each takes and its KV blocks stay; steps may be smaller
    than those that the placement was made for. With `even_split` every stage keeps the objective / stages, without all
    of them together the objective. Units/s are T̂'s (Coral, section 4.2; design "Node throughput"), over the share.
    """
    # A node without a share does nothing, in a set that was not pruned.
    curves = [[_curve(phases, configs[n.config], s, n, len(stages)) for n in s.nodes if n.weight > 0] for s in stages]
    if any(curve is None for stage in curves for curve in stage):  # a node cannot be split so any more
        return 0.0
    known = [[curve for curve in stage if curve is not None] for stage in curves]
    slo_s = phases.served.slo_ms(phases.phase) / 1000
    within = (_within(known, share * slo_s, even_split=even_split) for share in own_shares(phases.served, phases.phase))
    return next((units_per_s for units_per_s in within if units_per_s > 0), 0.0)


def _within(stages: Sequence[Sequence[Curve]], budget_s: float, *, even_split: bool) -> float:
    """The most units/s at which the stages keep the budget."""

    def holds(units_per_s: float) -> bool:
        needs = [max(curve.least_s(units_per_s) for curve in stage) for stage in stages]
        return max(needs) <= budget_s / len(needs) if even_split else sum(needs) <= budget_s

    # Between two rates of any node nothing changes.
    rates = np.unique(np.concatenate([curve.units_per_s for stage in stages for curve in stage]))
    low, high = 0, len(rates)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rates[middle] == 0 or holds(float(rates[middle])) else (low, middle)
    return float(rates[low - 1]) if low else 0.0


def _curve(phases: NodePhases, config: NodeConfig, stage: Stage, made: StageNodes, stages: int) -> Curve | None:
    parallel = Parallel(made.tp, made.dp, made.pp, made.ep)
    work = next((each for each in phases.works(config) if each.split.parallel == parallel), None)
    if work is None:
        return None
    at = np.flatnonzero(work.split.layers.ravel() == stage.layers)
    return work.curve(RunningNode(made, _role(stage, stages), int(at[0]), stages)) if len(at) else None


def _role(stage: Stage, stages: int) -> StageRole:
    if stages == 1:
        return StageRole.ONLY
    return StageRole.FIRST if stage.first else StageRole.LAST if stage.last else StageRole.MIDDLE
