"""Everything that the kernel works on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from control.simulator.serving.autoregressive import records as p
from control.simulator.serving.kernel import records as r
from policies import queue_parts, slack
from policies.later_legs import Candidate, Flow, Route, Server
from policies.rows import Floats, Ints, Rows


class World(NamedTuple):
    """Arrays of records, a row for each thing."""

    app: NDArray[np.int32]
    """(n,) by request, as the next five."""
    arrival_s: Floats
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    rank: NDArray[np.int8]
    most: NDArray[np.int32]
    """Tokens that its answer may have, as gateways know it."""
    fates: Rows[r.Fate]
    places: NDArray[np.int32]
    """(n, most legs) the instance of each leg; -1: none."""
    calls: Rows[r.Call]
    call_links: Rows[r.Links]
    """By arrival; `next` is also the list of free rows."""
    call_ends: Rows[r.Ends]
    parked_links: Rows[r.Links]
    parked_ends: Rows[r.Ends]
    """By app."""
    legs: Rows[r.CallLeg]
    """(calls · most legs,)"""
    queue_links: Rows[r.Links]
    """By arrival: of the legs that wait at an instance, or are in a group."""
    queue_ends: Rows[r.Ends]
    """By instance."""
    group_ends: Rows[r.Ends]
    held_links: Rows[r.Links]
    """All legs at an instance, by arrival."""
    held_ends: Rows[r.Ends]
    routes: Rows[Route]
    route_legs: Rows[r.RouteLeg]
    edges: Rows[r.Edge]
    instances: Rows[r.Instance]
    instance_apps: Ints
    groups: Rows[r.Group]
    nodes: Rows[r.Node]
    stations: Rows[r.Station]
    facets: Floats
    """(facets, work classes) seconds per unit: a mix of units takes the most that any facet of the station says."""
    mix: Floats
    """(work classes,) units of the batch that is being made."""
    apps: Rows[r.App]
    charges: Rows[r.Charge]
    booked: Floats
    """(calls, most charges of an app) output tokens/s at which the answer was booked; infinite: it takes none."""
    done_s: Floats
    """(work classes,) when all admitted work is done."""
    picks: Ints
    """(apps, choices, 1 + most legs): route, and instance of each leg, that the apps' routers chose for their next
    calls."""
    picked: Rows[r.Picked]
    """By app."""
    servers: Rows[Server]
    flows: Rows[Flow]
    flow_zones: Ints
    """(flows, most legs)"""
    members: Rows[slack.Member]
    candidates: Rows[Candidate]
    """By row of `members`."""
    latency_s: Floats
    """(times, prompt points): see `policies.slack`."""
    busy_s: Floats
    waiting: Rows[queue_parts.Waiting]
    """By call."""
    queues: Rows[queue_parts.Queue]
    """By app."""
    chosen: Ints
    """(most legs,) instances for the call that is being dispatched."""
    heap: Rows[r.Event]
    state: Rows[r.State]
    use_s: Floats
    """Seconds that the nodes of an instance compute, by instance and interval."""
    sequences: Rows[p.Sequence]
    """By row of `legs`."""
    seated: Ints
    """(rows of `legs`, most stages) nodes of a sequence, one a stage, counted from its instance's first."""
    chunks: Rows[p.Chunk]
    """By row of `legs` and stage."""
    seats: Rows[p.Seat]
    """By instance, group and node."""
    pipelines: Rows[p.Pipeline]
    stages: Rows[p.Stage]
    limits: Rows[p.Limit]
    windows: Ints
    """By kind of layer of a pipeline; 0 is none."""
    kinds: Ints
    """(kinds, layers + 1) how many of the first layers are of the kind."""
    by_rows: Floats
    """(tables, 2, ROW_POINTS)"""
    by_context: Floats
    """(tables, 2, POINTS)"""
    tables: Rows[p.Table]
    work: Rows[p.Work]
    """By node: of the step that is being made."""
    feeds: NDArray[np.bool_]
    """(nodes, nodes): one node's rows go to another."""
    scratch: Ints
    """(3, nodes): chunks left, nodes chosen, order of groups."""


class Limits(NamedTuple):
    """Limits of gateways and schedulers: `ServingSettings`, as numbers."""

    admits: bool
    max_wait_s: float
    request_timeout_s: float
    resume_wait_s: float
    max_resumptions: int
    max_waiting: int
    request_s: float
    reply_s: float
    use_interval_s: float
    lead_s: float
    streams_kv: bool
