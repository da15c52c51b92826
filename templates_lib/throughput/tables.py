"""T̂ of one work class over node configurations."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.apps.served_model import ServedModel
from templates_lib.ports.cost_model import Floats, StageCostModel
from templates_lib.throughput.phase_work import PhaseWork
from templates_lib.throughput.phases import node_phases
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.throughput_table import StageRole, ThroughputTable
from templates_lib.values.work import Phase

Cells = dict[str, NDArray[np.float64]]
"""`units_per_s` and the choice behind it, each (4, B ascending, C, L)."""
Index = tuple[Any, ...]


def make_monotone(cells: Cells, *, in_groups: bool) -> Cells:
    """Non-increasing in layers, non-decreasing in the budget, MIDDLE ≥ FIRST and LAST.

    What a node sustains in a shorter budget, with more layers or with an end of the model beside them, it sustains
    with less to do: the better choice is taken over. Only where that is impossible (more pipeline parts than layers,
    or `in_groups`: a step that is a pipeline's group is too small for a longer budget) the larger cell is lowered to
    the smaller: a node may always do less.
    """
    cells = {name: values.copy() for name, values in cells.items()}
    first = StageRole.ONLY if in_groups else StageRole.FIRST
    for b in range(1, cells["units_per_s"].shape[1]):
        _take_over(cells, np.s_[first:, b], np.s_[first:, b - 1])
    for role in (StageRole.FIRST, StageRole.LAST):
        _take_over(cells, (StageRole.MIDDLE,), (role,))
    for j in range(cells["units_per_s"].shape[3] - 2, -1, -1):
        _take_over(cells, np.s_[..., j], np.s_[..., j + 1], most_parts=j + 1)
    units = np.minimum.accumulate(cells["units_per_s"], axis=3)
    units = np.minimum.accumulate(units[:, ::-1], axis=1)[:, ::-1]
    for role in (StageRole.FIRST, StageRole.LAST):
        units[role] = np.minimum(units[role], units[StageRole.MIDDLE])
    cells["units_per_s"] = units
    return {name: np.where(units > 0, values, 0.0) for name, values in cells.items()}


def _take_over(cells: Cells, to: Index, source: Index, most_parts: int | None = None) -> None:
    better = cells["units_per_s"][source] > cells["units_per_s"][to]
    if most_parts is not None:
        better &= cells["pp"][source] <= most_parts
    for values in cells.values():
        values[to] = np.where(better, values[source], values[to])


FIELDS = ("units_per_s", "tp", "dp", "pp", "ep", "batch_cap", "chunk_tokens", "kv_blocks")


def throughput_table(
    served: ServedModel,
    phase: Phase,
    configs: Sequence[NodeConfig],
    gpus: Mapping[str, Gpu],
    cost_model: StageCostModel,
    budgets_ms: Sequence[float],
) -> ThroughputTable:
    """The most prompt tokens (prefill), output tokens (decode) or requests (aggregated) per second of each node.

    `budgets_ms` may be in any order (see `budgets`). A configuration that joins no others gets ONLY cells of the
    aggregated phase and nothing else, those of fewer layers repeat the whole model's; one whose GPU lacks a data type
    of the model gets none.

    Raises ValueError for a configuration whose GPU is not in `gpus`, and for budgets that are not positive.
    """
    if not budgets_ms or not all(0 < b < np.inf for b in budgets_ms):
        raise ValueError(f"{served.class_id(phase)}: budgets must be positive milliseconds, got {list(budgets_ms)}")
    order = np.argsort(budgets_ms, kind="stable")
    budgets_s = np.asarray(budgets_ms, dtype=np.float64)[order] / 1000
    cells: Cells = {name: np.zeros((4, len(order), len(configs), served.model.layers)) for name in FIELDS}
    phases = node_phases(served, phase, gpus, cost_model)
    for c, node in enumerate(configs):
        for work in phases.works(node):
            _keep_best(cells, c, work, budgets_s)
    as_given = np.argsort(order)
    values = {name: v[:, as_given] for name, v in make_monotone(cells, in_groups=phase is Phase.DECODE).items()}
    return ThroughputTable(
        work_class=served.class_id(phase),
        configs=tuple(node.id for node in configs),
        budgets_ms=tuple(budgets_ms),
        units_per_s=values["units_per_s"],
        tp=values["tp"].astype(np.int16),
        dp=values["dp"].astype(np.int16),
        pp=values["pp"].astype(np.int16),
        ep=values["ep"].astype(np.int16),
        batch_cap=values["batch_cap"].astype(np.int32),
        chunk_tokens=values["chunk_tokens"].astype(np.int32),
        kv_blocks=values["kv_blocks"].astype(np.int32),
    )


def _keep_best(cells: Cells, config: int, work: PhaseWork, budgets_s: Floats) -> None:
    best = work.best(budgets_s)
    parallel = work.split.parallel
    better = best.units_per_s > cells["units_per_s"][:, :, config]
    found: dict[str, Floats | int] = {
        "units_per_s": best.units_per_s,
        "tp": parallel.tp,
        "dp": parallel.dp,
        "pp": parallel.pp,
        "ep": parallel.ep,
        "batch_cap": best.requests,
        "chunk_tokens": best.prompt_tokens,
        "kv_blocks": best.kv_blocks,
    }
    for name, values in found.items():
        cells[name][:, :, config] = np.where(better, values, cells[name][:, :, config])
