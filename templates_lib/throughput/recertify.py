"""What a placement that runs sustains under an objective that it was not made for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from templates_lib.cost_model import Floats, Parallel
from templates_lib.node_config import NodeConfig
from templates_lib.placement import Stage, StageNodes
from templates_lib.throughput.operation import PhaseWork, Work
from templates_lib.throughput.phases import NodePhases
from templates_lib.throughput.request_cache import BLOCK_TOKENS
from templates_lib.throughput.waiting.prefill import WaitingPrefillWork
from templates_lib.throughput_table import Role
from templates_lib.work import Phase

_STEPS = 64
"""Sizes of steps that are tried, up to the largest that a node was made for."""


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """What one node of a stage can do: arrays (N,)."""

    latency_s: Floats
    units_per_s: Floats
    """Of the whole pipeline, when this node takes its share of the stage. 0: the step is not possible."""

    def least_s(self, units_per_s: float) -> float:
        """The shortest step at which the pipeline is given so much; infinite where there is none."""
        return float(np.where(self.units_per_s >= units_per_s, self.latency_s, np.inf).min())


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
    if any(curve is None for stage in curves for curve in stage):
        return 0.0
    known = [[curve for curve in stage if curve is not None] for stage in curves]
    slo_s = phases.served.slo_ms(phases.phase) / 1000

    def holds(units_per_s: float) -> bool:
        needs = [max(curve.least_s(units_per_s) for curve in stage) for stage in known]
        return max(needs) <= slo_s / len(needs) if even_split else sum(needs) <= slo_s

    # Between two rates of any node nothing changes.
    rates = np.unique(np.concatenate([curve.units_per_s for stage in known for curve in stage]))
    low, high = 0, len(rates)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rates[middle] == 0 or holds(float(rates[middle])) else (low, middle)
    return float(rates[low - 1]) if low else 0.0


def _curve(phases: NodePhases, node: NodeConfig, stage: Stage, held: StageNodes, stages: int) -> _Curve | None:
    parallel = Parallel(held.tp, held.dp, held.pp, held.ep)
    phase = next((each for each in phases.works(node) if each.split.parallel == parallel), None)
    if phase is None:
        return None
    at = np.flatnonzero(phase.split.layers.ravel() == stage.layers)
    if not len(at):
        return None
    role = _role(stage, stages)
    if isinstance(phase, WaitingPrefillWork):
        if held.batch_cap != held.dp:
            return None  # It puts prompts together, which was not certified.
        return _waiting_curve(phase, role, int(at[0]), held, phases.request.ttft_s, stages)
    work = _steps(phases.phase, phase, held)
    operation = phase.operate(work)
    possible = bool(phase.split.possible[role, 0, at[0], 0])
    blocks = phase.split.memory.kv_blocks(phase.kv_free_bytes(work), BLOCK_TOKENS)
    shape = np.broadcast_shapes(operation.latency_s.shape, operation.shares.shape, operation.units_per_s.shape)

    def of_stage(values: Floats) -> Floats:
        return np.asarray(np.broadcast_to(values, shape)[role, 0, at[0]])

    # Smaller steps leave more room for KV cache, which the node that runs does not have.
    room = np.minimum(1.0, held.kv_blocks / np.maximum(of_stage(blocks), 1.0))
    works = possible & (of_stage(operation.shares) <= 1)
    units = np.where(works, of_stage(operation.units_per_s) * room / held.weight, 0.0)
    return _Curve(of_stage(operation.latency_s), units)


def _waiting_curve(
    phase: WaitingPrefillWork, role: Role, layers: int, held: StageNodes, slo_s: float, stages: int
) -> _Curve:
    """Within shares of the objective, an even one among them, in place of sizes of steps: those are of one prompt."""
    budgets_s = np.unique(np.append(np.geomspace(slo_s / _STEPS, slo_s, _STEPS), slo_s / stages))
    best = phase.best(budgets_s)
    blocks = best.kv_blocks[role, :, layers]
    room = np.minimum(1.0, held.kv_blocks / np.maximum(blocks, 1.0))
    return _Curve(budgets_s, best.units_per_s[role, :, layers] * room / held.weight)


def _role(stage: Stage, stages: int) -> Role:
    if stages == 1:
        return Role.ONLY
    return Role.FIRST if stage.first else Role.LAST if stage.last else Role.MIDDLE


def _steps(phase: Phase, work: PhaseWork, held: StageNodes) -> Work:
    """(1, 1, 1, N): up to the caps that the node was made with; a chunk of an aggregated iteration is always whole."""
    dp, none = held.dp, np.zeros((1, 1, 1, 1))
    if phase is Phase.PREFILL:
        one = min(dp * np.ceil(work.split.request.prompt), held.chunk_tokens)
        return Work(none, _grid(one, one if held.batch_cap else held.chunk_tokens, dp))
    requests = _grid(dp, held.batch_cap, dp)
    return Work(requests, none if phase is Phase.DECODE else np.full_like(none, held.chunk_tokens))


def _grid(least: float, most: float, quantum: int) -> Floats:
    least, most = max(least, 1.0), max(most, 1.0)
    between = np.floor(np.geomspace(least, most, _STEPS) / quantum) * quantum
    return np.unique(np.append(between[between >= least], most))[None, None, None, :]
