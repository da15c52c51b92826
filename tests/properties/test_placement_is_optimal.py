"""The placement solver finds what the paper's ILP and a separate dynamic programme find."""

from collections import Counter
from collections.abc import Callable

import gurobipy
import numpy as np
import pytest
from numpy.typing import NDArray

from bench.placement_oracles.best_placement import BagPlacement, best_placement
from bench.placement_oracles.every_depth import reference_optimum
from bench.placement_oracles.gurobi import solve_where_licensed, solve_with_gurobi
from bench.placement_oracles.highs import solve_with_highs
from bench.placement_oracles.outcome import Outcome
from bench.placement_oracles.placement_ilp import PlacementIlp, placement_ilp
from templates_lib.values.throughput_table import StageRole
from templates_lib.values.work import Phase
from tests.properties.placement_cases import Case, random_case
from tests.properties.placement_dp import best_units_per_s
from tests.properties.placement_uneven import best_uneven_units_per_s
from tests.properties.real_tables import OBJECTIVES_MS, PHASES, coarse_units, real_units

REAL_DEPTHS = (24, 36, 40, 64, 80, 94)
ILP_CHUNKS, ILP_CASES = 10, 52
DP_CHUNKS, DP_CASES = 10, 52


def _units_per_s(case: Case, placement: BagPlacement) -> float:
    """The slowest stage, added up again from T̂."""
    stages = placement.stages
    slowest = np.inf
    for number, stage in enumerate(stages):
        role = StageRole.FIRST if number == 0 else StageRole.LAST if number == len(stages) - 1 else StageRole.MIDDLE
        role = StageRole.ONLY if len(stages) == 1 else role
        cells = case.units[role, stage.budget, :, stage.layers - 1]
        slowest = min(slowest, sum(count * cells[config] for config, count in stage.counts))
    return float(slowest)


def _check(case: Case, best: float, *, even_split: bool = True) -> None:
    placement = best_placement(case.units, case.counts, even_split=even_split)
    if placement is None:
        assert best == 0
        return
    assert placement.units_per_s == pytest.approx(best, rel=1e-6)
    assert placement.units_per_s == pytest.approx(_units_per_s(case, placement), rel=1e-12)
    assert sum(stage.layers for stage in placement.stages) == case.units.shape[3]
    placed: Counter[int] = Counter()
    for stage in placement.stages:
        assert stage.layers >= 1
        assert stage.counts
        placed.update(dict(stage.counts))
    assert placed == Counter(case.nodes)


def _work_class(number: int) -> tuple[str, Phase]:
    """Each model and phase in turn."""
    models = list(OBJECTIVES_MS)
    return models[number % len(models)], PHASES[number // len(models) % len(PHASES)]


def _small_case(seed: int) -> Case:
    """2 to 6 nodes, at most 16 layers; of odd seeds T̂ is a real model's, a few layers taken as one."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.choice([2, 3, 4, 5, 6], p=[0.2, 0.25, 0.25, 0.2, 0.1]))
    if seed % 2:
        units = coarse_units(*_work_class(seed // 2), 16)
        return Case(units, tuple(sorted(rng.integers(0, units.shape[2], nodes).tolist())))
    return random_case(
        seed, nodes=nodes, configs=int(rng.integers(1, 5)), layers=int(rng.integers(nodes, 17)), budgets=nodes
    )


def _deep_case(seed: int) -> Case:
    """2 to 6 nodes at the depth of a real model; of odd seeds with its T̂ too."""
    nodes = 2 + seed % 4 if seed % 20 else 6
    if seed % 2:
        units = real_units(*_work_class(seed // 2))
        return Case(units, tuple(sorted(np.random.default_rng(seed).integers(0, units.shape[2], nodes).tolist())))
    layers = REAL_DEPTHS[seed // 2 % len(REAL_DEPTHS)]
    return random_case(seed, nodes=nodes, configs=1 + seed % 5, layers=layers, budgets=nodes)


def fits_free_licence(ilp: PlacementIlp) -> bool:
    """Of `pip install gurobipy`: 2,000 variables, and as many linear constraints."""
    return max(ilp.variables, len(ilp.rows)) <= 2000


def _solve_freely(ilp: PlacementIlp, units: NDArray[np.float64], time_limit_s: float) -> Outcome:
    assert fits_free_licence(ilp)
    return solve_with_gurobi(ilp, units, time_limit_s)


@pytest.mark.parametrize("chunk", range(ILP_CHUNKS))
def test_placement_equals_the_ilp(chunk: int) -> None:
    for seed in range(chunk * ILP_CASES, (chunk + 1) * ILP_CASES):
        case = _small_case(seed)
        outcome = reference_optimum(case.units, case.nodes, _solve_freely, time_limit_s=120)
        assert outcome.proven, f"seed {seed}: {outcome}"
        _check(case, outcome.units_per_s)


@pytest.mark.parametrize("chunk", range(DP_CHUNKS))
def test_placement_equals_the_dynamic_programme_at_real_depths(chunk: int) -> None:
    for seed in range(chunk * DP_CASES, (chunk + 1) * DP_CASES):
        case = _deep_case(seed)
        _check(case, best_units_per_s(case.units, case.nodes))


@pytest.mark.parametrize("make", [_small_case, _deep_case])
def test_the_cases_are_of_many_kinds(make: Callable[[int], Case]) -> None:
    """Pipelines of each depth, mixed and not, and sets that serve nothing: not one kind over and over."""
    found = [(case, best_placement(case.units, case.counts)) for case in map(make, range(300))]
    depths = Counter(len(placement.stages) for _, placement in found if placement)
    assert all(depths[stages] >= 3 for stages in (1, 2, 3, 4))
    assert sum(placement is None for _, placement in found) >= 3
    assert sum(len(case.counts) > 1 for case, _ in found) >= 200
    assert {len(case.nodes) for case, _ in found} == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("chunk", range(2))
def test_an_uneven_split_equals_its_definition(chunk: int) -> None:
    depths: Counter[int] = Counter()
    for seed in range(chunk * 40, (chunk + 1) * 40):
        nodes = 2 + seed % 3
        case = random_case(seed, nodes=nodes, configs=3, layers=4 + seed % 4, budgets=6, looser_later=True)
        _check(case, best_uneven_units_per_s(case.units, case.nodes), even_split=False)
        placement = best_placement(case.units, case.counts, even_split=False)
        if placement:
            assert len(placement.stages) == 1 or sum(s.budget + 1 for s in placement.stages) <= 6
            depths[len(placement.stages)] += 1
    assert all(depths[stages] >= 2 for stages in (1, 2, 3))


def test_highs_and_gurobi_agree_on_the_ilp() -> None:
    solved = 0
    for seed in range(80):
        case = _small_case(seed)
        if len(case.nodes) * case.units.shape[3] > 40:
            continue
        by_highs = reference_optimum(case.units, case.nodes, solve_with_highs, time_limit_s=120)
        assert by_highs.proven
        by_gurobi = reference_optimum(case.units, case.nodes, solve_with_gurobi, time_limit_s=120)
        assert by_gurobi.units_per_s == pytest.approx(by_highs.units_per_s, rel=1e-6)
        solved += by_highs.units_per_s > 0
    assert solved >= 20


def test_the_free_gurobi_licence_ends_where_we_say() -> None:
    case = random_case(0, nodes=6, configs=3, layers=40, budgets=6)
    large = placement_ilp(case.units, case.nodes, 6, 0.0)
    assert not fits_free_licence(large)
    with pytest.raises(gurobipy.GurobiError):
        solve_with_gurobi(large, case.units, 1.0)
    assert solve_where_licensed(large, case.units, 1.0) is None


def test_eight_nodes_equal_the_dynamic_programme() -> None:
    for seed in range(4):
        case = random_case(seed, nodes=8, configs=4, layers=9, budgets=8)
        _check(case, best_units_per_s(case.units, case.nodes))
