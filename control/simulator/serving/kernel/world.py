"""Everything that the kernel works on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class World(NamedTuple):
    """Arrays of `columns`, a row for each thing."""

    app: NDArray[np.int32]
    """Of requests (n,), as the next three."""
    arrival_s: Floats
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    outcomes: NDArray[np.int32]
    """(n, O_WIDTH)"""
    times_s: Floats
    """(n, OF_WIDTH)"""
    sequences: Ints
    calls: Ints
    calls_f: Floats
    instances: Ints
    groups: Ints
    members: Ints
    """Requests by instance, group and node."""
    lane_tokens: Ints
    """Of prompts in lanes that are not computed yet, as `members`."""
    lane_prompts: Ints
    """How many these are."""
    free_blocks: Ints
    """By node of an instance."""
    pending: Ints
    """By node of an instance: prompt tokens in lanes that are not computed yet."""
    nodes_f: Floats
    pipelines: Ints
    pipelines_f: Floats
    stages: Ints
    limits: Ints
    limits_f: Floats
    windows: Ints
    """By kind of layer of a pipeline; 0 is none."""
    kinds: Ints
    """(kinds, layers + 1) how many of the first layers are of the kind."""
    by_rows: Floats
    """(tables, 2, ROW_POINTS)"""
    by_context: Floats
    """(tables, 2, POINTS)"""
    tables_f: Floats
    apps: Ints
    apps_f: Floats
    picks: Ints
    """(apps, choices, 2) instances that the apps' routers have chosen for their next calls; the second is -1 where the
    first serves whole requests."""
    picked: Ints
    """(apps, 2): how many of them are taken, and how many there are; -1: nothing is open."""
    heap_s: Floats
    heap: Ints
    """(room, 3): priority and id in one, then two more words."""
    registers: Ints
    registers_f: Floats
    use_s: Floats
    """Seconds that the nodes of an instance compute, by instance and interval."""
    work: Floats
    """(nodes, W_WIDTH) of the step that is being made."""
    feeds: NDArray[np.bool_]
    """(nodes, nodes): one node's rows go to another."""
    scratch: Ints
    """(3, nodes): chunks left, nodes chosen, order of groups."""


class Limits(NamedTuple):
    """Of gateways and schedulers: `ServingSettings`, as numbers."""

    admits: bool
    max_wait_s: float
    request_timeout_s: float
    resume_wait_s: float
    max_resumptions: int
    max_waiting: int
    request_s: float
    reply_s: float
    use_interval_s: float
