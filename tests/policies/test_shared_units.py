"""Placement of shared units: MuxServe's algorithms against enumeration."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from bench.units.exact_partition import most_requests_per_s
from policies.shared_units.dedicated import optimal_dedicated
from policies.shared_units.greedy_placement import by_memory, by_throughput, total
from policies.shared_units.mesh_groups import mesh_groups
from policies.shared_units.placed_unit import SHARES, MeshMemory, UnitEstimates, UnitModel, member_of
from policies.shared_units.share_candidates import share_candidates
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.models.catalogue import load_models
from templates_lib.models.model_spec import ModelSpec
from templates_lib.units.estimator import printed
from templates_lib.units.job_times import Lengths, MemberJobs
from templates_lib.units.member import JobTimes
from templates_lib.values.gpu import GIB
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

CATALOGUE = load_models()
NAMES = ("smollm2-135m-instruct", "phi-4-14b", "gpt-oss-20b", "qwen3-32b")
LENGTHS = Lengths(161, 338)
LARGEST = 128
MEMORY = MeshMemory(load_gpus()["A100-80"].memory_bytes * 0.9, 2 * GIB)


@cache
def jobs(name: str, gpus: int, share: float) -> JobTimes:
    node = NodeConfig(f"A100-80:{gpus}", "A100-80", gpus, 2400.0, 0.0, 256.0)
    return MemberJobs(estimated_cost_model(load_gpus()), CATALOGUE[name], node, LENGTHS).times(1.0, share, LARGEST)


def model(number: int, name: str, rate: float) -> UnitModel:
    spec: ModelSpec = CATALOGUE[name]
    kv = spec.layers * spec.kv_bytes_per_token_per_layer * LENGTHS.total
    return UnitModel(
        f"{number}-{name}", rate, LENGTHS.output, kv, spec.weight_bytes,
        lambda gpus, share: jobs(name, gpus, share), (1, 2, 4, 8),
    )  # fmt: skip


def random_models(count: int, seed: int) -> list[UnitModel]:
    rng = np.random.default_rng(seed)
    return [model(i, str(rng.choice(NAMES)), float(rng.uniform(0.1, 12))) for i in range(count)]


def estimates_of(models: Sequence[UnitModel]) -> UnitEstimates:
    return UnitEstimates(MEMORY, share_candidates(models, MEMORY))


def rate_alone(each: UnitModel, gpus: int, share: float) -> float | None:
    found = printed([member_of(each, gpus, share)], MEMORY.kv_bytes(gpus, [each]))
    return None if found is None else found.requests_per_s


@pytest.mark.parametrize("seed", range(6))
def test_candidates_have_the_least_share_that_carries_the_rate_at_every_degree(seed: int) -> None:
    for each in random_models(4, seed):
        found = share_candidates([each], MEMORY)[each.name]
        for gpus in each.degrees:
            every = {share: rate for share in SHARES if (rate := rate_alone(each, gpus, share)) is not None}
            if not every:
                assert gpus not in found
                continue
            enough = [share for share, rate in every.items() if rate >= each.requests_per_s]
            most = max(every.values())
            expected = min(enough) if enough else min(share for share, rate in every.items() if rate == most)
            assert found[gpus].decode_share == expected
            assert found[gpus].requests_per_s == every[expected]


def test_mesh_groups_are_the_cuts_of_whole_nodes() -> None:
    assert mesh_groups(4, 4, 4) == ((4,), (2, 2), (2, 1, 1), (1, 1, 1, 1))
    assert mesh_groups(4, 4, 2) == ((4,), (2, 2))
    assert mesh_groups(5, 4, 3) == ((4, 1), (2, 2, 1))
    assert len(mesh_groups(8, 8, 8)) == 10  # as many as the authors list for a node
    for group in mesh_groups(32, 8, 16):
        assert sum(group) == 32
        assert len(group) <= 16
        assert max(group) <= 8
    with pytest.raises(ValueError, match="6 GPUs"):
        mesh_groups(6, 6, 2)


@pytest.mark.parametrize("seed", range(5))
def test_algorithm_1_is_within_a_few_percent_of_the_best_partition(seed: int) -> None:
    models = random_models(4, seed)
    estimates = estimates_of(models)
    units = by_throughput(models, mesh_groups(8, 8, 4), estimates)
    best = most_requests_per_s(models, 8, 8, estimates)
    assert units is not None
    assert best is not None
    assert 0.9 * best <= total(units) <= best * (1 + 1e-9)
    assert sorted(name for unit in units for name in unit.models) == sorted(each.name for each in models)
    assert sum(unit.gpus for unit in units) <= 8


def test_models_that_fit_nowhere_are_no_placement() -> None:
    models = [model(i, "qwen3-32b", 1.0) for i in range(3)]  # 61 GiB each beside their caches, two cards
    estimates = estimates_of(models)
    assert by_throughput(models, mesh_groups(2, 2, 3), estimates) is None
    assert by_memory(models, mesh_groups(2, 2, 3), estimates) is None
    assert most_requests_per_s(models, 2, 2, estimates) is None


def test_a_busy_model_has_replicas_where_gpus_are_its_own() -> None:
    models = [model(0, "phi-4-14b", 100.0), model(1, "smollm2-135m-instruct", 0.1)]
    found = {each.model: each for each in optimal_dedicated(models, 8, estimates_of(models))}
    assert found[models[0].name].count > 1
    assert sum(each.gpus * each.count for each in found.values()) <= 8


def test_a_dedicated_split_is_the_best_of_all() -> None:
    models = random_models(3, seed=11)
    estimates = estimates_of(models)

    def best(left: list[UnitModel], free: int) -> float:
        if not left:
            return 0.0
        found = best(left[1:], free)
        for gpus in left[0].degrees:
            for count in range(1, free // gpus + 1):
                part = model(0, left[0].name.partition("-")[2], left[0].requests_per_s / count)
                alone = estimates.alone(gpus, part)
                if alone is not None:
                    found = max(found, alone.requests_per_s * count + best(left[1:], free - gpus * count))
        return found

    split = optimal_dedicated(models, 4, estimates)
    assert sum(each.requests_per_s for each in split) == pytest.approx(best(models, 4))
