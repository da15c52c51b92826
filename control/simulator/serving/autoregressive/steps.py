"""Time of a group's step: through the tables of each node, stage after stage."""

import math

from control.simulator.serving.autoregressive.records import (
    BODY_ROWS,
    DECODE_CONTEXT,
    HEAD_ROWS,
    PREFILL,
    PROMPT_CONTEXT,
)
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.world import World
from control.timing.step_table import CELLS, DENSE, DENSE_OCTAVES, OCTAVES
from policies.rows import Floats


@compiled
def look_up(points: Floats, x: float) -> float:
    """On a straight line between the two points of `table_points` beside `x` ≥ 0; the last line goes on."""
    if x < 1.0:
        return float(points[0] + (points[1] - points[0]) * x)
    return _in_octaves(points, x, 1, 0)


@compiled
def look_up_rows(points: Floats, x: float) -> float:
    """The same with `row_points`."""
    if x < DENSE:
        at = int(x)
        return float(points[at] + (points[at + 1] - points[at]) * (x - at))
    return _in_octaves(points, x, DENSE, DENSE_OCTAVES)


@compiled
def _in_octaves(points: Floats, x: float, first: int, octave: int) -> float:
    """`first`: where the points begin at 2 ^ `octave`."""
    exponent = min(math.frexp(x)[1] - 1, OCTAVES - 1)
    place = (x / 2.0**exponent - 1.0) * CELLS
    cell = min(int(place), CELLS - 1)
    at = first + CELLS * (exponent - octave) + cell
    return float(points[at] + (points[at + 1] - points[at]) * (place - cell))


@compiled
def step_seconds(
    w: World, table: int, prompts: float, context: float, requests: float, cached: float, sampled: float
) -> tuple[float, float]:
    """(of all layers, of the LM head). `prompts` tokens that attend to `context` earlier ones in the mean, `requests`
    that decode behind `cached` tokens in the mean, `sampled` rows that a token is sampled of."""
    rows, contexts, of = w.by_rows[table], w.by_context[table], w.tables[table]
    dp = of.replicas
    p = max(prompts / dp, min(prompts, 1.0))
    r = max(requests / dp, min(requests, 1.0))
    body = look_up_rows(rows[BODY_ROWS], p + r)
    if r > 0:
        body += r * look_up(contexts[DECODE_CONTEXT], cached + 1.0)
    else:
        body -= of.decode_step_s
    if p > 0:
        body += of.prompt_step_s + p * (of.prompt_token_s + look_up(contexts[PROMPT_CONTEXT], context + 1.0))
    if sampled == 0:
        return body, 0.0
    return body, look_up_rows(rows[HEAD_ROWS], max(sampled / dp, 1.0))


@compiled
def _quota_end_s(w: World, node: int, limit: int, start_s: float, step_s: float) -> float:
    """When a step is done that takes so long where periods follow each other: the node has a quota in each of them, all
    of it at once where it was idle."""
    share, period_s = w.limits[limit].quota_share, w.limits[limit].period_s
    if share >= 1.0:
        return start_s + step_s
    quota_s, cpu_s = share * period_s, share * step_s
    period = math.floor(start_s / period_s)
    spent_s = w.nodes[node].spent_s if w.nodes[node].period == period else 0.0
    at_once_s = min(quota_s - spent_s, (period + 1) * period_s - start_s)
    if cpu_s <= at_once_s:
        end_s, spent_s = start_s + cpu_s, spent_s + cpu_s
    else:
        cpu_s -= at_once_s
        whole = math.ceil(cpu_s / quota_s) - 1
        period += whole + 1
        spent_s = cpu_s - whole * quota_s
        end_s = period * period_s + spent_s
    w.nodes[node].period = period
    w.nodes[node].spent_s = spent_s
    return float(end_s)


@compiled
def clear_work(w: World, nodes: int) -> None:
    for a in range(nodes):
        work = w.work[a]
        work.prompt_tokens = work.prompt_context = work.requests = work.cached = work.sampled = 0.0
        for b in range(nodes):
            w.feeds[a, b] = False


@compiled
def pass_through(w: World, instance: int, now_s: float, use_interval_s: float) -> float:
    """When the step of `work` and `feeds`, launched now, is through all stages and known to the scheduler.

    Nodes take steps in the order in which they are launched; one begins when all its rows are there. In a node that is
    a pipeline, a step is also behind the one before it at the last part.
    """
    row = w.instances[instance]
    pipeline = w.pipelines[row.model]
    node_at, limit_at, stage_at, depth = row.node_at, pipeline.limit_at, pipeline.stage_at, pipeline.depth
    end_s = now_s
    for stage in range(depth):
        first, end = w.stages[stage_at + stage].node, w.stages[stage_at + stage + 1].node
        before = w.stages[stage_at + stage - 1].node if stage else 0
        for node in range(first, end):
            work, limit, own = w.work[node], w.limits[limit_at + node], w.nodes[node_at + node]
            prompts, requests = work.prompt_tokens, work.requests
            if prompts + requests == 0:
                continue
            start_s = max(now_s, own.compute_s)
            for other in range(before, first):
                if w.feeds[other, node]:
                    start_s = max(start_s, w.work[other].out_s)
            context = work.prompt_context / prompts if prompts else 0.0
            cached = work.cached / requests if requests else 0.0
            table = limit.table
            body_s, head_s = step_seconds(w, table, prompts, context, requests, cached, work.sampled)
            body_s += own.links_s
            own.links_s = 0.0
            if row.role == PREFILL:
                body_s += prompts * limit.send_s_per_token
            part_s = body_s * w.tables[table].busy_share
            busy_s = part_s + head_s
            if w.tables[table].parts == 1:
                done_s = free_s = _quota_end_s(w, node_at + node, limit_at + node, start_s, body_s + head_s)
            else:
                done_s = max(start_s + body_s + head_s, own.last_s + busy_s)
                free_s = start_s + part_s
            own.compute_s = free_s
            own.last_s = done_s
            interval = int(start_s / use_interval_s) - row.use_first
            w.use_s[row.use_at + min(interval, row.uses - 1)] += busy_s
            rows = prompts + requests if stage + 1 < depth else 0.0
            out_s = done_s + limit.hop_s + limit.hop_s_per_token * rows
            work.start_s = start_s
            work.out_s = out_s
            if stage + 1 == depth:
                end_s = max(end_s, out_s)
    return end_s
