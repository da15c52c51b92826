"""Pipelines as the arrays of the kernel, each once however many instances run it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from control.simulator.serving.kernel import columns as c
from control.simulator.serving.kernel.world import Floats, Ints
from control.simulator.serving.pipeline_model import NodeModel, PipelineModel
from control.simulator.serving.step_table import POINTS, ROW_POINTS, StepTable


@dataclass(frozen=True, slots=True, eq=False)
class PipelineRows:
    """As the fields of `World` of the same names."""

    index: dict[int, int]
    """`id` of a `PipelineModel` → its row."""
    pipelines: Ints
    pipelines_f: Floats
    stages: Ints
    limits: Ints
    limits_f: Floats
    windows: Ints
    kinds: Ints
    by_rows: Floats
    by_context: Floats
    tables_f: Floats
    most_nodes: int
    most_stages: int


def nodes_of(pipeline: PipelineModel) -> list[NodeModel]:
    return [node for stage in pipeline.stages for node in stage.nodes]


def pipeline_rows(used: Sequence[PipelineModel]) -> PipelineRows:
    pipelines = list({id(pipeline): pipeline for pipeline in used}.values())
    nodes = [node for pipeline in pipelines for node in nodes_of(pipeline)]
    tables = list({id(node.step): node.step for node in nodes}.values())
    table_index = {id(table): row for row, table in enumerate(tables)}
    rows = np.zeros((len(pipelines), c.P_WIDTH), np.int64)
    stages: list[tuple[int, int]] = []
    windows: list[int] = []
    held: list[Ints] = []
    node_at = 0
    for row, pipeline in zip(rows, pipelines, strict=True):
        own_windows = sorted(set(pipeline.windows))
        row[c.P_DEPTH], row[c.P_NODES] = len(pipeline.stages), len(nodes_of(pipeline))
        row[c.P_STAGE_AT], row[c.P_NODE_AT], row[c.P_BLOCK_TOKENS] = len(stages), node_at, pipeline.block_tokens
        row[c.P_KIND_AT], row[c.P_KINDS] = len(windows), len(own_windows)
        stages += _stage_rows(pipeline)
        held += [np.cumsum([0, *(own == window for own in pipeline.windows)]) for window in own_windows]
        windows += own_windows
        node_at += len(nodes_of(pipeline))
    most_layers = max((len(pipeline.windows) for pipeline in pipelines), default=0)
    figures = [(p.hand_off_s, p.kv_bytes_per_token_per_layer) for p in pipelines]
    return PipelineRows(
        index={id(pipeline): row for row, pipeline in enumerate(pipelines)},
        pipelines=rows,
        pipelines_f=np.array(figures, np.float64).reshape(-1, c.PF_WIDTH),
        stages=np.array(stages, np.int64).reshape(-1, c.ST_WIDTH),
        limits=np.array([_limits(node, table_index) for node in nodes], np.int64).reshape(-1, c.L_WIDTH),
        limits_f=np.array([_figures(node) for node in nodes], np.float64).reshape(-1, c.LF_WIDTH),
        windows=np.array(windows, np.int64),
        kinds=np.array([np.pad(row, (0, most_layers + 1 - len(row))) for row in held], np.int64).reshape(
            -1, most_layers + 1
        ),
        by_rows=np.array([(table.rows_s, table.head_s) for table in tables]).reshape(-1, 2, ROW_POINTS),
        by_context=np.array([(t.prompt_context_s, t.decode_context_s) for t in tables]).reshape(-1, 2, POINTS),
        tables_f=np.array([_steady(table) for table in tables], np.float64).reshape(-1, c.TF_WIDTH),
        most_nodes=max((len(nodes_of(pipeline)) for pipeline in pipelines), default=1),
        most_stages=max((len(pipeline.stages) for pipeline in pipelines), default=1),
    )


def _stage_rows(pipeline: PipelineModel) -> list[tuple[int, int]]:
    """First node and first layer of each stage, and of the end."""
    rows = [(0, 0)]
    for stage in pipeline.stages:
        rows.append((rows[-1][0] + len(stage.nodes), rows[-1][1] + stage.layers))
    return rows


def _limits(node: NodeModel, table_index: dict[int, int]) -> tuple[int, int, int, int]:
    return node.batch_cap, node.chunk_tokens, node.kv_blocks, table_index[id(node.step)]


def _figures(node: NodeModel) -> tuple[float, ...]:
    quota = node.quota_share, node.quota_period_s
    return node.weight, node.hop_s, node.hop_s_per_token, node.hand_off_bytes_per_s, *quota


def _steady(table: StepTable) -> tuple[float, ...]:
    return (
        table.prompt_step_s,
        table.prompt_token_s,
        table.decode_step_s,
        table.replicas,
        table.parts,
        table.busy_share,
    )
