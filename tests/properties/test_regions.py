"""Templates whose capacity is a region of limits: planned as brute force does over the region's own corners."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from control.allocator import solve
from control.allocator.regions import maximal_corners, with_points
from control.checker import check, claims_of
from templates_lib.values.library import Library
from templates_lib.values.settings import Mode, Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.template import Limit
from tests import factories as make
from tests.brute_force import best_plan

MODELS = ("a", "b", "c")
CONFIGS = ("A:1/n25", "B:1/n25")
QUICK = 10


@dataclass(frozen=True)
class World:
    snapshot: Snapshot
    library: Library
    corners: Mapping[str, tuple[dict[str, int], list[dict[str, float]]]]
    """Template id → (nodes, corners of its region)."""


def corners_of(most: Mapping[str, float], limits: Sequence[Limit]) -> list[dict[str, float]]:
    """All corners of a region that nothing clips: every choice of as many constraints as there are classes."""
    names = sorted(most)
    rows = [[limit.get(name, 0.0) for name in names] for limit in limits]
    rows += [[float(i == k) / most[name] for k, name in enumerate(names)] for i, name in enumerate(names)]
    right = [1.0] * len(rows) + [0.0] * len(names)
    matrix = np.array(rows + [[float(i == k) for k in range(len(names))] for i in range(len(names))])
    found = []
    for chosen in combinations(range(len(matrix)), len(names)):
        part = matrix[list(chosen)]
        if abs(np.linalg.det(part)) < 1e-12:
            continue
        x = np.linalg.solve(part, np.array([right[i] for i in chosen]))
        if (x >= -1e-9).all() and (matrix[: len(rows)] @ x <= 1 + 1e-9).all():
            found.append({name: float(max(v, 0.0)) for name, v in zip(names, x, strict=True)})
    return found


def random_world(seed: int) -> World:
    """Three models in one or two zones; for each a template of its own, and units of two or three of them."""
    draw = np.random.default_rng(seed)
    zones = ["aws/x/1", "aws/x/2"][: int(draw.integers(1, 3))]
    models = MODELS[: int(draw.integers(2, 4))]
    speed = {config: float(draw.uniform(0.5, 2.5)) for config in CONFIGS}
    offers = [
        make.offer(config, zone, round(speed[config] * float(draw.uniform(0.6, 1.4)), 3), int(draw.integers(0, 3)))
        for config in CONFIGS
        for zone in zones
    ]
    points: dict[str, tuple[dict[str, int], list[dict[str, float]]]] = {}
    corners: dict[str, tuple[dict[str, int], list[dict[str, float]]]] = {}
    limits: dict[str, tuple[Limit, ...]] = {}
    sets = [(model,) for model in models] + [models[:2], models]
    for i, members in enumerate(sets):
        config = CONFIGS[int(draw.integers(len(CONFIGS)))]
        name, most = f"{i:032x}", {f"{m}/serve": round(speed[config] * float(draw.uniform(2, 6)), 3) for m in members}
        rows = [
            {k: float(draw.uniform(0.5, 1.2)) / v for k, v in most.items() if draw.random() < 0.9}
            for _ in range(int(draw.integers(1, 3)) if len(members) > 1 else 0)
        ]
        nodes = {config: 1}
        points[name], corners[name] = (nodes, [most]), (nodes, corners_of(most, rows))
        if rows:
            limits[name] = tuple(rows)
    classes = [make.work_class(f"{m}/serve") for m in models]
    library = replace(make.library(classes, points), limits=limits)
    snapshot = make.snapshot(
        offers,
        [make.route(m, {f"{m}/serve": 1.0}) for m in models],
        {m: round(float(draw.uniform(0.1, 5)), 3) for m in models},
        settings=Settings(mode=Mode.PAPER if seed % 3 == 0 else Mode.ZONES, utilisation_cap=0.85),
    )
    return World(snapshot, library, corners)


def equals_brute_force(seed: int) -> None:
    world = random_world(seed)
    expected = best_plan(world.snapshot, world.corners, most_instances=3)
    plan = solve(world.snapshot, world.library)
    assert check(plan, world.snapshot, claims_of(world.library, (i.template_id for i in plan.instances))) == ()
    assert sum(plan.unmet.values()) == pytest.approx(expected.unmet_requests_per_s, abs=1e-4)
    assert plan.objective == pytest.approx(expected.objective, rel=1e-4, abs=1e-6)
    assert plan.bound <= expected.objective * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("seed", range(QUICK))
def test_units_are_planned_as_brute_force_does(seed: int) -> None:
    equals_brute_force(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, 200, 10))
def test_many_more_units_are_planned_as_brute_force_does(first: int) -> None:
    for seed in range(first, first + 10):
        equals_brute_force(seed)


shapes = st.integers(1, 5).flatmap(
    lambda m: st.tuples(
        st.lists(st.floats(0.1, 10), min_size=m, max_size=m),
        st.lists(st.lists(st.one_of(st.just(0.0), st.floats(0.01, 3)), min_size=m, max_size=m), min_size=1, max_size=3),
        st.lists(st.one_of(st.just(0.0), st.floats(0.01, 5)), min_size=m, max_size=m),
    )
)


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_whatever_classes_are_worth_a_maximal_corner_is_worth_most(
    shape: tuple[list[float], list[list[float]], list[float]],
) -> None:
    most, rows, worth = (np.array(each) for each in shape)
    corners = np.concatenate([x for _, x in maximal_corners(most[None], rows[None])])
    best = linprog(-worth, rows, np.ones(len(rows)), bounds=[(0, m) for m in most], method="highs")
    assert (corners @ worth).max() == pytest.approx(-best.fun, rel=1e-6, abs=1e-6)
    assert (corners <= most * (1 + 1e-9)).all()
    assert (corners @ rows.T <= 1 + 1e-6).all()
    for i, x in enumerate(corners):  # none exceeds another
        others = np.delete(corners, i, axis=0)
        assert not ((others >= x - 1e-12).all(axis=1) & (others > x + 1e-6).any(axis=1)).any()


def test_a_load_that_fits_is_one_point_of_exactly_that_load() -> None:
    library = replace(
        make.library([make.work_class("a/serve"), make.work_class("b/serve")],
                     {"0" * 32: ({"A:1/n25": 1}, [{"a/serve": 10.0, "b/serve": 20.0}])}),
        limits={"0" * 32: ({"a/serve": 0.1, "b/serve": 0.05},)},
    )  # fmt: skip
    found, share = with_points(library, np.array([1 / 4.0, 1 / 8.0]))
    assert found.entry_units_per_s.tolist() == [4.0, 8.0]
    assert len(found.point_template) == 1
    assert share.tolist() == [1 / 4.0, 1 / 8.0]
    more, _ = with_points(library, np.array([1 / 8.0, 1 / 8.0]))
    assert sorted(more.entry_units_per_s.tolist()) == pytest.approx([4.0, 6.0, 8.0, 8.0])  # (8, 4) and (6, 8)
    assert not more.limits


def test_limits_on_several_points_or_too_many_classes_are_refused() -> None:
    two = make.library([make.work_class("a/serve")], {"0" * 32: ({"A:1/n25": 1}, [{"a/serve": 1.0}, {"a/serve": 2.0}])})
    with pytest.raises(ValueError, match="several operating points"):
        with_points(replace(two, limits={"0" * 32: ({"a/serve": 1.0},)}), np.ones(2))
    classes = [make.work_class(f"{i}/serve") for i in range(11)]
    many = make.library(classes, {"0" * 32: ({"A:1/n25": 1}, [{c.id: 1.0 for c in classes}])})
    with pytest.raises(ValueError, match="11 work classes"):
        with_points(replace(many, limits={"0" * 32: ({"0/serve": 1.0},)}), np.ones(11))


def test_the_checker_refuses_more_than_the_limits_allow() -> None:
    world = random_world(4)
    name, limits = next(iter(world.library.limits.items()))
    claim = claims_of(world.library, [name])[name]
    classes = [k for k in claim.points[0] if k in limits[0]]
    most = min(1.0 / limit[k] for limit in limits for k in classes[:1] if k in limit)
    assert claim.allows({classes[0]: min(most, claim.points[0][classes[0]]) * 0.999})
    assert not claim.allows({classes[0]: max(most, claim.points[0][classes[0]]) * 1.01})
