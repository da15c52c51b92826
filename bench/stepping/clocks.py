"""When the nodes of an instance are through with what they are told, and when its links are."""

from collections.abc import Iterable, Sequence

import numpy as np

from agents.scheduler.orders import StepEntry
from control.timing.pipeline_model import NodeModel, PipelineModel
from control.timing.step_table import StepTable, row_points, table_points
from templates_lib.ports.cost_model import Floats

Spent = tuple[int, float]
"""A period of a node's quota, and the processor time of it that is spent."""
_POINTS = table_points()
_ROWS = row_points()


class Clocks:
    def __init__(self, pipeline: PipelineModel, *, sends: bool) -> None:
        """`sends`: KV caches leave the pipeline while their prompts are computed."""
        self.pipeline = pipeline
        self._sends = sends
        self.free_s = [[0.0] * len(stage.nodes) for stage in pipeline.stages]
        """Until when the first part of each node computes."""
        self._done_s = [[0.0] * len(stage.nodes) for stage in pipeline.stages]
        """And the last one."""
        self._spent: list[list[Spent]] = [[(0, 0.0)] * len(stage.nodes) for stage in pipeline.stages]
        """When each computed last."""
        self.sends_s = [[0.0] * len(stage.nodes) for stage in pipeline.stages]
        """Until when each node is busy with sending KV caches."""
        self.takes_s = [[0.0] * len(stage.nodes) for stage in pipeline.stages]
        self.links_s = [[0.0] * len(stage.nodes) for stage in pipeline.stages]
        """What the next step of each takes longer for KV caches that came while it computed."""

    def launch(
        self, entries: Sequence[tuple[StepEntry, bool]], now_s: float
    ) -> tuple[float, dict[int, list[tuple[float, float]]]]:
        """Entries, each with whether it decodes → when the step is through, and by run when it is at each stage."""
        spans: dict[int, list[tuple[float, float]]] = {entry.run: [] for entry, _ in entries}
        there_s = {entry.run: now_s for entry, _ in entries}
        last = len(self.pipeline.stages) - 1
        for number, stage in enumerate(self.pipeline.stages):
            for place, node in enumerate(stage.nodes):
                own = [(entry, decodes) for entry, decodes in entries if entry.nodes[number] == place]
                if not own:
                    continue
                begin_s = max(self.free_s[number][place], *(there_s[entry.run] for entry, _ in own))
                body_s, head_s = step_seconds(node.step, own)
                body_s += self.links_s[number][place]
                self.links_s[number][place] = 0.0
                if self._sends:
                    tokens = sum(len(entry.token_ids) for entry, decodes in own if not decodes)
                    body_s += tokens * self.pipeline.send_s_per_token(stage, node)
                if node.step.parts == 1:
                    done_s, spent = quota_end(node, self._spent[number][place], begin_s, body_s + head_s)
                    self.free_s[number][place], self._spent[number][place] = done_s, spent
                else:
                    part_s = body_s * node.step.busy_share
                    done_s = max(begin_s + body_s + head_s, self._done_s[number][place] + part_s + head_s)
                    self.free_s[number][place] = begin_s + part_s
                self._done_s[number][place] = done_s
                rows = 0 if number == last else sum(len(entry.token_ids) for entry, _ in own)
                end_s = done_s + node.hop_s + node.hop_s_per_token * rows
                for entry, _ in own:
                    there_s[entry.run] = end_s
                    spans[entry.run].append((begin_s, end_s))
        return max(there_s.values()), spans


def step_seconds(table: StepTable, entries: Iterable[tuple[StepEntry, bool]]) -> tuple[float, float]:
    """See `StepTable`: (of all layers, of the LM head)."""
    prompts = context = requests = cached = sampled = 0.0
    for entry, decodes in entries:
        tokens = len(entry.token_ids)
        sampled += entry.sampling is not None
        if decodes:
            requests += 1
            cached += entry.position
        else:
            prompts += tokens
            context += tokens * (entry.position + (tokens - 1) / 2)
    context, cached = (context / prompts if prompts else 0.0), (cached / requests if requests else 0.0)
    return seconds_of(table, prompts, context, requests, cached, sampled)


def quota_end(node: NodeModel, spent: Spent, begin_s: float, step_s: float) -> tuple[float, Spent]:
    """When a step that takes `step_s` at the share of the node's quota is done, and what is spent then."""
    if node.quota_share >= 1:
        return begin_s + step_s, spent
    period_s, left_s = node.quota_period_s, step_s * node.quota_share
    period, at_s = int(begin_s // period_s), begin_s
    spent_s = spent[1] if spent[0] == period else 0.0
    while True:
        end_s = (period + 1) * period_s
        could_s = min(node.quota_share * period_s - spent_s, end_s - at_s)
        if left_s <= could_s:
            return at_s + left_s, (period, spent_s + left_s)
        period, at_s, left_s, spent_s = period + 1, end_s, left_s - could_s, 0.0


def seconds_of(
    table: StepTable, prompts: float, context: float, requests: float, cached: float, sampled: float
) -> tuple[float, float]:
    """The same of totals: prompt tokens that attend to `context` earlier ones, requests behind `cached` tokens, rows
    that a token is sampled of."""
    p, r = (max(total / table.replicas, min(total, 1.0)) for total in (prompts, requests))
    body = _at(_ROWS, table.rows_s, p + r)
    body += r * _at(_POINTS, table.decode_context_s, cached + 1) if requests else -table.decode_step_s
    if prompts:
        of_token = table.prompt_token_s + _at(_POINTS, table.prompt_context_s, context + 1)
        body += table.prompt_step_s + p * of_token
    return body, _at(_ROWS, table.head_s, max(sampled / table.replicas, 1.0)) if sampled else 0.0


def send_part(
    source: Clocks,
    source_nodes: Sequence[int],
    target: Clocks,
    target_nodes: Sequence[int],
    stage: int,
    tokens: int,
    pieces: int,
    begin_s: float,
) -> float:
    """When one of so many pieces of what a stage has of a request's KV cache is there. A node's network is busy with it
    for as long as it takes at its own rate."""
    end_s = begin_s
    first, end, a = _parts(source.pipeline, source_nodes)[stage]
    i = source_nodes[stage]
    for t, (their_first, their_end, b) in enumerate(_parts(target.pipeline, target_nodes)):
        layers = range(max(first, their_first), min(end, their_end))
        if not layers:
            continue
        j = target_nodes[t]
        size = _kept_bytes(source.pipeline, layers, tokens) / pieces
        if target.free_s[t][j] > begin_s:
            target.links_s[t][j] += size * b.take_s_per_byte
        start_s = max(begin_s, source.sends_s[stage][i])
        out_s = start_s + size / a.hand_off_bytes_per_s
        in_s = max(start_s, target.takes_s[t][j]) + size / b.hand_off_bytes_per_s
        source.sends_s[stage][i], target.takes_s[t][j] = out_s, in_s
        end_s = max(end_s, out_s, in_s)
    return end_s


def _parts(pipeline: PipelineModel, nodes: Sequence[int]) -> list[tuple[int, int, NodeModel]]:
    parts, first = [], 0
    for stage, node in zip(pipeline.stages, nodes, strict=True):
        parts.append((first, first + stage.layers, stage.nodes[node]))
        first += stage.layers
    return parts


def _kept_bytes(pipeline: PipelineModel, layers: range, tokens: int) -> float:
    kept = sum(min(tokens, pipeline.windows[layer] or tokens) for layer in layers)
    return kept * pipeline.kv_bytes_per_token_per_layer


def _at(points: Floats, curve: Floats, x: float) -> float:
    if x > points[-1]:
        slope = (curve[-1] - curve[-2]) / (points[-1] - points[-2])
        return float(curve[-1] + slope * (x - points[-1]))
    return float(np.interp(x, points, curve))
