"""T̂ of one work class over node configurations."""

import difflib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from templates_lib.cost_model import Floats, StageCostModel
from templates_lib.gpu import Gpu
from templates_lib.node_config import NodeConfig
from templates_lib.served_model import ServedModel
from templates_lib.throughput.aggregated import AggregatedWork
from templates_lib.throughput.decode import DecodeWork
from templates_lib.throughput.dtypes import computes
from templates_lib.throughput.monotone import Cells, make_monotone
from templates_lib.throughput.node_split import NodeSplit, node_split
from templates_lib.throughput.operation import PhaseWork
from templates_lib.throughput.prefill import prefill_work
from templates_lib.throughput.request_cache import RequestCache
from templates_lib.throughput.roles import IS_ALONE
from templates_lib.throughput.search import best_steps
from templates_lib.throughput.splits import splits
from templates_lib.throughput_table import ThroughputTable
from templates_lib.work import Phase

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
    aggregated phase and nothing else; one whose GPU lacks a data type of the model gets none.

    Raises ValueError for a configuration whose GPU is not in `gpus`, or a budget that is not positive.
    """
    if not budgets_ms or not all(b > 0 for b in budgets_ms):
        msg = f"{served.class_id(phase)}: latency budgets must be positive milliseconds, got {list(budgets_ms)}"
        raise ValueError(msg)
    order = np.argsort(budgets_ms, kind="stable")
    budgets_s = np.asarray(budgets_ms, dtype=np.float64)[order] / 1000
    shape = (4, len(order), len(configs), served.model.layers)
    cells: Cells = {name: np.zeros(shape) for name in FIELDS}
    cache = RequestCache(served)
    for c, node in enumerate(configs):
        for work in phase_works(served, phase, node, gpus, cost_model, cache):
            _keep_best(cells, c, work, budgets_s)
    cells = make_monotone(cells)
    back = np.argsort(order)
    values = {name: v[:, back] for name, v in cells.items()}
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


def phase_works(
    served: ServedModel,
    phase: Phase,
    node: NodeConfig,
    gpus: Mapping[str, Gpu],
    cost_model: StageCostModel,
    cache: RequestCache,
) -> Iterator[PhaseWork]:
    """`phase` on every split of `node`; none where the node cannot do it at all."""
    gpu = gpus.get(node.gpu)
    if gpu is None:
        near = difflib.get_close_matches(node.gpu, gpus, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(gpus))}"
        msg = f"node configuration {node.id}: unknown GPU {node.gpu!r}{hint}"
        raise ValueError(msg)
    if not computes(gpu, served.model) or (phase is not Phase.AGGREGATED and not node.joins_others):
        return
    for parallel in splits(served.model, node.gpu_count):
        yield _phase_work(phase, node_split(served, node, gpu, parallel, cost_model, cache))


def _phase_work(phase: Phase, split: NodeSplit) -> PhaseWork:
    if phase is Phase.PREFILL:
        return prefill_work(split)
    return DecodeWork(split) if phase is Phase.DECODE else AggregatedWork(split)


def _keep_best(cells: Cells, config: int, work: PhaseWork, budgets_s: Floats) -> None:
    best = best_steps(work, budgets_s)
    parallel = work.split.parallel
    better = best.units_per_s > cells["units_per_s"][:, :, config]
    if not work.split.node.joins_others:
        better &= IS_ALONE[..., 0]
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
