"""Node sets: the multisets of node configurations that a template of one model may use (Coral, section 4.2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.models.model_spec import ModelSpec
from templates_lib.throughput.dtypes import computes, runs_as
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]

MOST_CONFIGS = 255


@dataclass(frozen=True, slots=True, eq=False)
class NodeSets:
    """n multisets over C configurations, smaller ones first. With a set, all its sub-multisets are there too."""

    members: NDArray[np.int16]
    """(n, n_max) indices of configurations, non-decreasing, padded with -1."""
    first_of_size: NDArray[np.int64]
    """(n_max + 2,): sets of k nodes are rows first_of_size[k] … first_of_size[k + 1] - 1."""
    config_count: int

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def n_max(self) -> int:
        return int(self.members.shape[1])

    def counts(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """(len(rows), C) nodes of each configuration."""
        chosen = self.members[rows]
        counts = np.zeros((len(rows), self.config_count), dtype=np.uint8)
        for column in chosen.T:
            held = column >= 0
            np.add.at(counts, (np.flatnonzero(held), column[held]), 1)
        return counts


def joinable_groups(
    model: ModelSpec,
    configs: Sequence[NodeConfig],
    gpus: Mapping[str, Gpu],
    zone_bags: Iterable[frozenset[str]],
) -> tuple[frozenset[int], ...]:
    """Largest sets of configurations (indices) that may be mixed in one template of `model`.

    Mixed nodes are offered together by one zone, have a network between nodes, are of one vendor, and share the types
    of activations and KV cache. A configuration that cannot be joined is a group of its own; one whose GPU cannot
    compute the model is in none.
    """
    kinds: dict[tuple[str, str | None, str | None], list[int]] = {}
    alone: set[frozenset[int]] = set()
    for index, config in enumerate(configs):
        gpu = gpus[config.gpu]
        if not computes(gpu, model):
            continue
        if config.joins_others:
            kind = (gpu.vendor, runs_as(gpu, model.activation_dtype), runs_as(gpu, model.kv_dtype))
            kinds.setdefault(kind, []).append(index)
        else:
            alone.add(frozenset({index}))
    groups: set[frozenset[int]] = set()
    offered = [frozenset(bag) for bag in zone_bags]
    for bag in offered:
        for alike in kinds.values():
            groups.add(frozenset(index for index in alike if configs[index].id in bag))
    sold = frozenset[str]().union(*offered)
    groups |= {group for group in alone if configs[min(group)].id in sold}
    largest = [g for g in groups if g and not any(g < other for other in groups)]
    return tuple(sorted(largest, key=sorted))


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """All sets of one size, in lexicographic order."""

    members: NDArray[np.int16]
    held_bytes: NDArray[np.float64]
    common: NDArray[np.uint64]
    """(n, W) bits of the groups that hold all nodes of the set."""


def _extend(level: _Level, nodes: int, groups: NDArray[np.uint64], bytes_of: Floats, most_bytes: float) -> _Level:
    """Sets of `nodes` + 1 from those of `nodes`: each with every configuration that does not come before its last."""
    parents, added = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for config in range(len(groups)):
        possible = level.members[:, nodes - 1] <= config
        possible &= level.held_bytes + bytes_of[config] <= most_bytes
        possible &= (level.common & groups[config]).any(axis=1)
        parents.append(np.flatnonzero(possible))
        added.append(np.full(len(parents[-1]), config))
    parent, config_added = np.concatenate(parents), np.concatenate(added)
    order = np.lexsort((config_added, parent))
    parent, config_added = parent[order], config_added[order]
    members = level.members[parent]
    members[:, nodes] = config_added
    return _Level(
        members, level.held_bytes[parent] + bytes_of[config_added], level.common[parent] & groups[config_added]
    )


def node_sets(
    model: ModelSpec,
    configs: Sequence[NodeConfig],
    gpus: Mapping[str, Gpu],
    zone_bags: Iterable[frozenset[str]],
    n_max: int,
    rho: float,
) -> NodeSets:
    """All joinable multisets of at most `n_max` nodes whose GPU memory is at most `rho` × the weights as served."""
    if len(configs) > MOST_CONFIGS:
        raise ValueError(f"{len(configs)} node configurations: at most {MOST_CONFIGS} can be enumerated; drop some")
    groups = joinable_groups(model, configs, gpus, zone_bags)
    bytes_of = np.array([config_bytes(config, gpus) for config in configs], dtype=np.float64)
    most_bytes = rho * model.weight_bytes
    masks = np.zeros((len(configs), max(1, -(-len(groups) // 64))), dtype=np.uint64)
    offered = np.zeros(len(configs), dtype=np.bool_)
    for number, group in enumerate(groups):
        for index in group:
            offered[index] = True
            if configs[index].joins_others:
                masks[index, number // 64] |= np.uint64(1 << (number % 64))
    single = np.flatnonzero(offered & (bytes_of <= most_bytes))
    members = np.full((len(single), n_max), -1, dtype=np.int16)
    members[:, 0] = single
    levels = [_Level(members, bytes_of[single], masks[single])]
    for nodes in range(1, n_max):
        levels.append(_extend(levels[-1], nodes, masks, bytes_of, most_bytes))
    first_of_size = np.concatenate([[0, 0], np.cumsum([len(each.members) for each in levels])]).astype(np.int64)
    return NodeSets(np.concatenate([each.members for each in levels]), first_of_size, len(configs))


def config_bytes(config: NodeConfig, gpus: Mapping[str, Gpu]) -> float:
    """GPU memory of one node in bytes."""
    return gpus[config.gpu].memory_bytes * config.gpu_count
