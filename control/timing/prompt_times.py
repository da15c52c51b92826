"""How long prompts take at an instance: what routing tables say of it."""

import numpy as np

from control.timing.pipeline_model import NodeModel, PipelineModel
from control.timing.step_table import StepTable, row_points, table_points
from policies.routing_table import PromptTimes
from policies.rows import Floats
from policies.slack import PROMPT_POINTS

_DECODING = 16.0
"""Requests that an instance which does the whole decodes beside a chunk of a prompt, and tokens that they have cached:
what it is certified with is not known here."""
_CACHED = 1024.0


def prompt_times(pipeline: PipelineModel, *, is_whole: bool) -> PromptTimes:
    """Times of an instance that does prefill alone, or the whole (chunk by chunk, beside requests that decode)."""
    chunk = min(node.chunk_tokens for node in pipeline.nodes)
    tokens = np.maximum(PROMPT_POINTS, 1.0)
    steps = np.ceil(tokens / chunk) if is_whole else np.ones_like(tokens)
    latency_s, busy_s = _through(pipeline, tokens, steps, (tokens - 1) / 2, is_whole)
    step, none = np.array([float(chunk)]), np.zeros(1)
    alone = _through(pipeline, step, np.ones(1), (step - 1) / 2, is_whole)
    apart = _through(pipeline, step, np.ones(1), none, is_whole)
    latency_square, busy_square = (float((a - b)[0]) / chunk**2 for a, b in zip(alone, apart, strict=True))
    return PromptTimes(tuple(latency_s.tolist()), tuple(busy_s.tolist()), chunk, latency_square, busy_square)


def _through(
    pipeline: PipelineModel, tokens: Floats, steps: Floats, context: Floats, is_whole: bool
) -> tuple[Floats, Floats]:
    """(latency, busy) of prompts, whose tokens attend to `context` earlier ones in the mean."""
    latency_s, busy_s = np.zeros_like(tokens), np.zeros_like(tokens)
    for stage in pipeline.stages:
        sends_s = [0.0 if is_whole else pipeline.send_s_per_token(stage, node) for node in stage.nodes]
        times = [
            _node_times(node, tokens, steps, context, is_whole, send_s)
            for node, send_s in zip(stage.nodes, sends_s, strict=True)
        ]
        latency_s += np.max([latency for latency, _ in times], axis=0)
        busy_s = np.maximum(busy_s, 1 / np.sum([1 / busy for _, busy in times], axis=0))
    return latency_s, busy_s


def _node_times(
    node: NodeModel, tokens: Floats, steps: Floats, context: Floats, is_whole: bool, send_s: float
) -> tuple[Floats, Floats]:
    """(latency, busy) of prompts at one node, results on their way included in the first. `send_s`: more for each
    token, whose KV cache is sent."""
    table = node.step
    body = steps * _body_s(table, tokens / steps, context, is_whole) + tokens * send_s
    head = np.interp(1.0, row_points(), table.head_s)
    hop = node.hop_s * steps + node.hop_s_per_token * tokens
    return body + head + hop, body * table.busy_share + head


def _body_s(table: StepTable, tokens: Floats, context: Floats, is_whole: bool) -> Floats:
    """Seconds of a step without the head: `step_seconds` of the kernel."""
    p = np.maximum(tokens / table.replicas, np.minimum(tokens, 1.0))
    r = max(_DECODING / table.replicas, 1.0) if is_whole else 0.0
    body = np.interp(p + r, row_points(), table.rows_s) - (0.0 if is_whole else table.decode_step_s)
    body += r * np.interp(_CACHED + 1, table_points(), table.decode_context_s)
    body += table.prompt_step_s + p * (
        table.prompt_token_s + np.interp(context + 1, table_points(), table.prompt_context_s)
    )
    return np.asarray(body)
