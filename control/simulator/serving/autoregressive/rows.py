"""Pipelines as the arrays of the kernel, each once however many instances run it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from control.simulator.serving.autoregressive.records import Limit, Pipeline, Stage, Table
from control.timing.pipeline_model import PipelineModel
from control.timing.step_table import POINTS, ROW_POINTS, StepTable
from policies.rows import Floats, Ints, Rows, table_of


@dataclass(frozen=True, slots=True, eq=False)
class PipelineRows:
    """The fields of `World` of the same names."""

    index: dict[int, int]
    """`id` of a `PipelineModel` → its row."""
    pipelines: Rows[Pipeline]
    stages: Rows[Stage]
    limits: Rows[Limit]
    windows: Ints
    kinds: Ints
    by_rows: Floats
    by_context: Floats
    tables: Rows[Table]
    most_nodes: int
    most_stages: int


def pipeline_rows(used: Sequence[PipelineModel]) -> PipelineRows:
    pipelines = list({id(pipeline): pipeline for pipeline in used}.values())
    nodes = [node for pipeline in pipelines for node in pipeline.nodes]
    tables = list({id(node.step): node.step for node in nodes}.values())
    table_index = {id(table): row for row, table in enumerate(tables)}
    rows: list[tuple[float, ...]] = []
    stages: list[tuple[int, int]] = []
    windows: list[int] = []
    held: list[Ints] = []
    node_at = 0
    for pipeline in pipelines:
        own_windows, own_nodes = sorted(set(pipeline.windows)), len(pipeline.nodes)
        places = len(stages), node_at, pipeline.block_tokens, len(windows), len(own_windows)
        figures = pipeline.hand_off_s, pipeline.kv_bytes_per_token_per_layer
        rows.append((len(pipeline.stages), own_nodes, *places, *figures))
        stages += _stage_rows(pipeline)
        held += [np.cumsum([0, *(own == window for own in pipeline.windows)]) for window in own_windows]
        windows += own_windows
        node_at += own_nodes
    most_layers = max((len(pipeline.windows) for pipeline in pipelines), default=0)
    return PipelineRows(
        index={id(pipeline): row for row, pipeline in enumerate(pipelines)},
        pipelines=table_of(Pipeline, rows),
        stages=table_of(Stage, stages),
        limits=table_of(Limit, [row for pipeline in pipelines for row in _limits(pipeline, table_index)]),
        windows=np.array(windows, np.int64),
        kinds=np.array([np.pad(row, (0, most_layers + 1 - len(row))) for row in held], np.int64).reshape(
            -1, most_layers + 1
        ),
        by_rows=np.array([(table.rows_s, table.head_s) for table in tables]).reshape(-1, 2, ROW_POINTS),
        by_context=np.array([(t.prompt_context_s, t.decode_context_s) for t in tables]).reshape(-1, 2, POINTS),
        tables=table_of(Table, [_steady(table) for table in tables]),
        most_nodes=max((len(pipeline.nodes) for pipeline in pipelines), default=1),
        most_stages=max((len(pipeline.stages) for pipeline in pipelines), default=1),
    )


def _stage_rows(pipeline: PipelineModel) -> list[tuple[int, int]]:
    """First node and first layer of each stage, and of the end."""
    rows = [(0, 0)]
    for stage in pipeline.stages:
        rows.append((rows[-1][0] + len(stage.nodes), rows[-1][1] + stage.layers))
    return rows


def _limits(pipeline: PipelineModel, table_index: dict[int, int]) -> Iterator[tuple[float, ...]]:
    for stage in pipeline.stages:
        for node in stage.nodes:
            held = node.batch_cap, node.chunk_tokens, node.kv_blocks, table_index[id(node.step)]
            times = node.hop_s, node.hop_s_per_token, node.quota_share, node.quota_period_s
            yield *held, node.weight, *times, pipeline.send_s_per_token(stage, node), node.take_s_per_byte


def _steady(table: StepTable) -> tuple[float, ...]:
    prompt = table.prompt_step_s, table.prompt_token_s
    return *prompt, table.decode_step_s, table.replicas, table.parts, table.busy_share
