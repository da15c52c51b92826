"""A phase on a node: the values that the search over batches and chunks works on."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from templates_lib.ports.cost_model import Floats
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.roles import IS_ALONE


@dataclass(frozen=True, slots=True, eq=False)
class StepLoad:
    """Work of one step of a node, totals over its dp replicas; arrays broadcast to (role, variant, layers, level)."""

    requests: Floats
    """Requests that each get one more token."""
    prompt_tokens: Floats


@dataclass(frozen=True, slots=True, eq=False)
class NodeOperation:
    """Times and rates of a node that repeats steps of some `StepLoad`. All (4, X, L, N); infeasible where a share
    exceeds 1."""

    latency_s: Floats
    """Latency that is held within the budget of the stage, in seconds."""
    shares: Floats
    """Largest share used of what the work needs beside its time: memory, time to first token, hand-off."""
    units_per_s: Floats
    """Throughput in steady state: bounded by step time, by KV residency (Little's law) and by the network."""
    units_per_step: Floats
    """Units of one step, where the step is a group that all stages of a pipeline share. It comes round once a budget: a
    node whose memory bounds its rate takes the groups of that rate, though smaller ones would do for itself. Infinite
    where steps of any size go together."""


class StepWork(Protocol):
    """One phase on one split of a node, in steps whose size is to be chosen."""

    @property
    def split(self) -> NodeSplit: ...

    def levels(self) -> StepLoad:
        """The grid to search: (1, V, 1, N), growing along the last axis, in whole steps of `quantum`."""
        ...

    def operate(self, work: StepLoad) -> NodeOperation: ...

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        """Room for KV on each GPU beside the weights and the workspace of `work`: (4, X, L, N)."""
        ...


def share(need: Floats, room: Floats) -> Floats:
    """need / room, and infinite where there is no room."""
    return np.where(room > 0, need / np.where(room > 0, room, 1.0), np.inf)


def stay_seconds(latency_s: Floats, slo_s: float) -> Floats:
    """One pass through all stages: a stage without peers takes its own time, others wait for slow peers."""
    return np.where(IS_ALONE, latency_s, slo_s)


def unpaced() -> Floats:
    """(1, 1, 1, 1): the `units_per_step` of work whose steps need not be of one size."""
    return np.full((1, 1, 1, 1), np.inf)


def network_cap(split: NodeSplit, activation_tokens_per_unit: float, cache_bytes_per_unit: Floats) -> Floats:
    """Units/s at which activations (of stages with peers) and handed-over KV fill the network in one direction."""
    activations = activation_tokens_per_unit * split.model.hidden_size * split.model.activation_element_bytes
    per_unit = np.where(IS_ALONE, 0.0, activations) + cache_bytes_per_unit
    return np.where(per_unit > 0, split.network_bytes_per_s / np.maximum(per_unit, 1e-9), np.inf)
