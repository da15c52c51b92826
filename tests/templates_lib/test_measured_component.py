"""Measured encoders and generators in the cost of components: their times where there are some, else the estimate."""

from dataclasses import replace

import pytest

from templates_lib.cost.measured_component import MeasuredComponentCost, component_key, unit_seconds
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.component import ComponentWork
from templates_lib.values.component_profile import ComponentProfile, UnitTime
from tests.templates_lib.test_app_work import A100, COSTS

GRAPH = load_graph("qwen2.5-vl-7b")
VISION, LANGUAGE = GRAPH.component("vision"), GRAPH.component("language")
TIMES = (UnitTime(100.0, 0.2), UnitTime(400.0, 1.0))
ONE = replace(A100, gpu_count=1)
PROFILE = ComponentProfile("s", "2026-11-27T00:00:00+00:00", "m", component_key(VISION), ONE.gpu, TIMES)
MEASURED = MeasuredComponentCost(COSTS, (PROFILE,))


@pytest.mark.parametrize(("rows", "seconds"), [(100, 0.2), (400, 1.0), (250, 0.6), (50, 0.1), (800, 2.0)])
def test_sizes_between_those_measured_are_interpolated_and_others_take_as_long_a_row(
    rows: float, seconds: float
) -> None:
    assert unit_seconds(TIMES, rows) == pytest.approx(seconds)


def test_a_measured_encoder_takes_its_time_for_each_unit_and_all_else_what_is_estimated() -> None:
    work = ComponentWork(units=500.0, items=2.0)
    assert MEASURED.seconds(VISION, ONE, work, 3.0) == pytest.approx(3 * 2 * 0.6)
    other, two = replace(ONE, gpu="L4"), replace(ONE, gpu_count=2)
    for component, node in ((VISION, other), (VISION, two), (LANGUAGE, ONE)):
        assert MEASURED.seconds(component, node, work, 3.0) == COSTS.seconds(component, node, work, 3.0)
    assert MEASURED.held_bytes(VISION, ONE, work) == COSTS.held_bytes(VISION, ONE, work)


def test_a_measured_generator_takes_its_time_by_seconds_of_speech_or_by_rows_and_steps() -> None:
    voice, picture = load_graph("kokoro-82m").component("voice"), load_graph("word-pictures").component("picture")
    of = "2026-11-27T00:00:00+00:00", "m"
    measured = MeasuredComponentCost(
        COSTS,
        (
            ComponentProfile("v", *of, component_key(voice), ONE.gpu, (UnitTime(1.0, 0.5), UnitTime(4.0, 1.6))),
            ComponentProfile("p", *of, component_key(picture), ONE.gpu, (UnitTime(96.0, 0.3), UnitTime(384.0, 0.9))),
        ),
    )
    assert measured.seconds(voice, ONE, ComponentWork(8.0), 2.0) == pytest.approx(2 * 3.2)
    drawn = ComponentWork(24.0, item_rows=16.0)
    assert measured.seconds(picture, ONE, drawn, 1.0) == pytest.approx(0.9)
    larger = replace(drawn, item_rows=64.0)
    assert measured.seconds(picture, ONE, larger, 1.0) == pytest.approx(3.6)
    assert measured.is_measured(voice, ONE)
    assert not measured.is_measured(LANGUAGE, ONE)


def test_what_was_measured_is_part_of_its_fingerprint_and_of_one_component_alone() -> None:
    again = MeasuredComponentCost(COSTS, (replace(PROFILE, subject="t"),))
    assert len({COSTS.fingerprint, MEASURED.fingerprint, again.fingerprint}) == 3
    assert component_key(load_graph("qwen2.5-vl-32b").component("vision")) != component_key(VISION)
