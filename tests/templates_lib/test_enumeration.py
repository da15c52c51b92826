"""Which node sets a model may use."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from templates_lib.models.catalogue import load_models
from templates_lib.models.model_spec import ModelSpec
from templates_lib.sources.enumeration import NodeSets, config_bytes, node_sets
from templates_lib.values.gpu import GIB, Gpu
from templates_lib.values.node_config import NodeConfig, config_id

GPUS = {
    "small": Gpu("small", "nvidia", "8.9", ("fp16", "bf16"), 24, 100, 0, 2400, "test"),
    "large": Gpu("large", "nvidia", "9.0", ("fp16", "bf16", "fp8"), 80, 900, 1800, 26800, "test"),
    "other": Gpu("other", "amd", "gfx942", ("fp16", "bf16"), 192, 1300, 0, 42400, "test"),
    "old": Gpu("old", "nvidia", "7.0", ("fp16",), 16, 110, 0, 7200, "test"),
}
MODEL: ModelSpec = load_models()["phi-4-14b"]
WEIGHTS_GIB = MODEL.weight_bytes / GIB


def _config(gpu: str, count: int = 1, network_gbps: float = 25) -> NodeConfig:
    return NodeConfig(config_id(gpu, count, network_gbps), gpu, count, 200, network_gbps, 64)


def _sets(configs: list[NodeConfig], bags: list[list[int]], n_max: int, rho: float) -> list[tuple[int, ...]]:
    zone_bags = [frozenset(configs[i].id for i in bag) for bag in bags]
    found = node_sets(MODEL, configs, GPUS, zone_bags, n_max, rho)
    return [tuple(c for c in row if c >= 0) for row in found.members.tolist()]


def test_all_multisets_within_n_max_and_rho() -> None:
    configs = [_config("small"), _config("small", 4), _config("large")]
    sizes = [config_bytes(c, GPUS) for c in configs]
    rho = 240 / WEIGHTS_GIB
    expected = {
        s
        for n in range(1, 5)
        for s in itertools.combinations_with_replacement(range(3), n)
        if sum(sizes[c] for c in s) <= rho * MODEL.weight_bytes
    }
    found = _sets(configs, [[0, 1, 2]], 4, rho)
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert (0, 0, 0, 0) in expected
    assert (1, 1, 1) not in expected


def test_of_nothing_that_is_sold_there_is_no_set() -> None:
    assert _sets([], [], 3, 100) == []


def test_smaller_sets_come_first_and_in_order() -> None:
    found = _sets([_config("small"), _config("large")], [[0, 1]], 3, 100)
    assert found == sorted(found, key=lambda s: (len(s), s))


def test_only_what_one_zone_offers_together_is_mixed() -> None:
    configs = [_config("small"), _config("large"), _config("small", 2)]
    found = set(_sets(configs, [[0, 1], [1, 2]], 2, 100))
    assert {(0, 1), (1, 2), (0, 0), (2, 2)} <= found
    assert (0, 2) not in found


def test_what_no_zone_offers_is_left_out() -> None:
    assert _sets([_config("small"), _config("large")], [[0]], 1, 100) == [(0,)]


def test_vendors_and_activation_types_are_not_mixed() -> None:
    found = set(_sets([_config("large"), _config("other"), _config("old")], [[0, 1, 2]], 2, 100))
    assert {(0, 0), (1, 1), (2, 2)} <= found
    assert not {(0, 1), (0, 2), (1, 2)} & found


def test_a_node_without_network_stays_alone() -> None:
    found = set(_sets([_config("large"), _config("small", 2, 0)], [[0, 1]], 2, 100))
    assert found == {(0,), (1,), (0, 0)}


def test_a_gpu_that_lacks_the_models_types_is_left_out() -> None:
    quantised = replace(MODEL, dtype="fp8", kv_dtype="fp8")
    configs = [_config("small"), _config("large")]
    found = node_sets(quantised, configs, GPUS, [frozenset(c.id for c in configs)], 1, 100)
    assert found.members.tolist() == [[1]]


def test_more_than_64_zones() -> None:
    configs = [_config("small", n, 25) for n in range(1, 81)]
    found = _sets(configs, [[i, i + 1] for i in range(79)], 2, 1000)
    assert sum(len(s) == 2 for s in found) == 80 + 79


def test_counts_are_nodes_of_each_configuration() -> None:
    configs = [_config("small"), _config("large")]
    sets: NodeSets = node_sets(MODEL, configs, GPUS, [frozenset(c.id for c in configs)], 3, 100)
    for row, counted in zip(sets.members.tolist(), sets.counts(np.arange(sets.size)).tolist(), strict=True):
        assert counted == [row.count(0), row.count(1)]


def test_too_many_configurations_are_refused() -> None:
    configs = [_config("small", n, 25) for n in range(1, 258)]
    with pytest.raises(ValueError, match="257 node configurations"):
        node_sets(MODEL, configs, GPUS, [], 2, 12)
