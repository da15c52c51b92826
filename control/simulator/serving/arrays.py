"""Requests, a fleet and its pipelines as the arrays of the kernel."""

from math import ceil

import numpy as np

from agents.messages.to_scheduler import Leg
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.kernel import columns as c
from control.simulator.serving.kernel.world import Floats, Ints, Limits, World
from control.simulator.serving.pipeline_rows import PipelineRows, nodes_of, pipeline_rows
from control.simulator.serving.requests import Requests
from control.simulator.serving.settings import ServingSettings

PICKS = 256
"""Choices that are asked of a router at once, at the most."""
_CALLS = 1024


def limits_of(settings: ServingSettings) -> Limits:
    return Limits(
        settings.admits,
        settings.max_wait_s,
        settings.request_timeout_s,
        settings.resume_wait_s,
        settings.max_resumptions,
        settings.max_waiting,
        settings.request_s,
        settings.reply_s,
        settings.use_interval_s,
    )


def world_of(requests: Requests, fleet: FleetTimeline, settings: ServingSettings) -> World:
    """Raises ValueError for an instance of two legs that cannot hand KV caches over."""
    _check_links(fleet)
    rows = pipeline_rows([life.pipeline for life in fleet.instances])
    instances, (nodes, groups, members, uses) = _instances(requests.apps, fleet, rows, settings)
    apps, free_blocks = len(requests.apps), [n.kv_blocks for life in fleet.instances for n in nodes_of(life.pipeline)]
    calls, calls_f, heap_s, heap, sequences = _pool(_CALLS, groups + len(instances), rows.most_stages)
    registers = np.zeros(c.R_WIDTH, np.int64)
    for nothing in (c.R_PENDING, c.R_LOST, c.R_OLDEST, c.R_NEWEST, c.R_WAKE, c.R_ROOM):
        registers[nothing] = -1
    group_rows = np.zeros((groups, c.G_WIDTH), np.int64)
    group_rows[:, [c.G_HEAD, c.G_TAIL]] = -1
    group_rows[:, c.G_INSTANCE] = np.repeat(np.arange(len(instances)), instances[:, c.I_GROUPS])
    return World(
        app=requests.app,
        arrival_s=requests.arrival_s,
        prompt=requests.prompt_tokens,
        output=requests.output_tokens,
        outcomes=_outcomes(len(requests)),
        times_s=np.full((len(requests), c.OF_WIDTH), np.nan),
        sequences=sequences,
        calls=calls,
        calls_f=calls_f,
        instances=instances,
        groups=group_rows,
        members=np.zeros(members, np.int64),
        lane_tokens=np.zeros(members, np.int64),
        lane_prompts=np.zeros(members, np.int64),
        free_blocks=np.array(free_blocks, np.int64),
        pending=np.zeros(nodes, np.int64),
        nodes_f=np.zeros((nodes, c.NF_WIDTH)),
        pipelines=rows.pipelines,
        pipelines_f=rows.pipelines_f,
        stages=rows.stages,
        limits=rows.limits,
        limits_f=rows.limits_f,
        windows=rows.windows,
        kinds=rows.kinds,
        by_rows=rows.by_rows,
        by_context=rows.by_context,
        tables_f=rows.tables_f,
        apps=_app_rows(requests, fleet),
        apps_f=_app_figures(requests, fleet),
        picks=np.zeros((apps, PICKS, 2), np.int64),
        picked=np.tile(np.array([0, -1]), (apps, 1)),
        heap_s=heap_s,
        heap=heap,
        registers=registers,
        registers_f=np.zeros(1),
        use_s=np.zeros(uses),
        work=np.zeros((rows.most_nodes, c.W_WIDTH)),
        feeds=np.zeros((rows.most_nodes, rows.most_nodes), np.bool_),
        scratch=np.zeros((3, max(rows.most_nodes, int(instances[:, c.I_GROUPS].max(initial=1)))), np.int64),
    )


def with_room(w: World) -> World:
    """The same with twice as many calls."""
    old, instances = len(w.calls), len(w.instances)
    most_stages = w.sequences.shape[1] - c.S_NODES
    calls, calls_f, heap_s, heap, sequences = _pool(2 * old, len(w.groups) + instances, most_stages)
    calls[:old], calls_f[:old], sequences[: 2 * old] = w.calls, w.calls_f, w.sequences
    heap_s[: len(w.heap_s)], heap[: len(w.heap)] = w.heap_s, w.heap
    calls[-1, c.C_NEXT] = w.registers[c.R_FREE]
    w.registers[c.R_FREE] = old
    return w._replace(calls=calls, calls_f=calls_f, heap_s=heap_s, heap=heap, sequences=sequences)


def _pool(room: int, others: int, most_stages: int) -> tuple[Ints, Floats, Floats, Ints, Ints]:
    """Room for so many calls at once, all free, and for their events beside those of `others`."""
    calls = np.zeros((room, c.C_WIDTH), np.int64)
    calls[:, c.C_REQUEST] = -1
    calls[:, c.C_NEXT] = np.arange(1, room + 1)
    calls[-1, c.C_NEXT] = -1
    events = 2 * others + 6 * room
    return (
        calls,
        np.full((room, c.CF_WIDTH), np.nan),
        np.zeros(events),
        np.zeros((events, 3), np.int64),
        np.zeros((2 * room, c.S_NODES + most_stages), np.int64),
    )


def _check_links(fleet: FleetTimeline) -> None:
    for life in fleet.instances:
        deaf = [node.config for node in nodes_of(life.pipeline) if node.hand_off_bytes_per_s <= 0]
        if life.leg != Leg.WHOLE and deaf:
            raise ValueError(f"instance {life.id} does {life.leg} alone on {deaf[0]}, which hands no KV cache over")


def _outcomes(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    outcomes = np.zeros((n, c.O_WIDTH), np.int32)
    outcomes[:, c.O_PREFILL] = outcomes[:, c.O_DECODE] = -1
    return outcomes


def _instances(
    apps: tuple[str, ...], fleet: FleetTimeline, rows: PipelineRows, settings: ServingSettings
) -> tuple[Ints, tuple[int, int, int, int]]:
    """And how many nodes, groups, counts of members and intervals they have together."""
    table = np.zeros((len(fleet.instances), c.I_WIDTH), np.int64)
    nodes = groups = members = uses = 0
    for number, life in enumerate(fleet.instances):
        own, pipeline = table[number], life.pipeline
        own[c.I_PIPELINE] = rows.index[id(pipeline)]
        own[c.I_ALIVE] = 1
        own[c.I_NODE_AT], own[c.I_GROUP_AT], own[c.I_MEMBER_AT], own[c.I_USE_AT] = nodes, groups, members, uses
        own[[c.I_WAIT_HEAD, c.I_WAIT_TAIL, c.I_ALL_HEAD, c.I_ALL_TAIL]] = -1
        own[c.I_APP] = apps.index(life.app) if life.app in apps else -1
        own[c.I_ROOM] = settings.max_waiting
        first = int(min(life.ready_s, fleet.length_s) / settings.use_interval_s)
        end = ceil(min(life.gone_s, fleet.length_s) / settings.use_interval_s)
        own[c.I_USE_FIRST], own[c.I_USES] = first, max(end - first, 1)
        count = len(nodes_of(pipeline))
        own[c.I_LANES] = life.leg == Leg.PREFILL
        own[c.I_GROUPS] = pipeline.lanes if life.leg == Leg.PREFILL else pipeline.groups
        nodes, groups, members = nodes + count, groups + int(own[c.I_GROUPS]), members + count * int(own[c.I_GROUPS])
        uses += int(own[c.I_USES])
    return table, (nodes, groups, members, uses)


def _app_rows(requests: Requests, fleet: FleetTimeline) -> Ints:
    """A context is the least of those that serve the app; nothing is known before the first table."""
    apps = np.zeros((len(requests.apps), c.A_WIDTH), np.int64)
    apps[:, [c.A_PARKED_HEAD, c.A_PARKED_TAIL]] = -1
    for number, app in enumerate(requests.apps):
        contexts = [life.pipeline.max_context_tokens for life in fleet.instances if life.app == app]
        apps[number, c.A_CONTEXT] = min(contexts, default=0)
    return apps


def _app_figures(requests: Requests, fleet: FleetTimeline) -> Floats:
    figures = np.zeros((len(requests.apps), c.AF_WIDTH))
    figures[:, [c.AF_PROMPT_DONE_S, c.AF_OUTPUT_DONE_S]] = -np.inf
    for number, app in enumerate(requests.apps):
        own = requests.output_tokens[requests.app == number]
        figures[number, c.AF_MEAN_OUTPUT] = fleet.mean_output_tokens.get(app, own.mean() if len(own) else 1.0)
    return figures
