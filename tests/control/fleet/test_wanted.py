"""What a plan says of what is to run."""

from dataclasses import replace

import pytest

from bench.text_tables import DECODE, PREFILL, WHOLE
from control.fleet.wanted import wanted
from templates_lib.values.template import template_id
from tests.control.fleet.fleets import plan_of, planned


def test_a_plan_says_all_that_whoever_launches_needs() -> None:
    plan = plan_of(
        [planned(2, "prefill"), planned(1, "decode", layers=(3, 3)), planned(1, "aggregated", layers=(6,))], [], []
    )
    found = wanted(plan)
    assert [(w.plan_id, w.model, w.leg, w.count, w.units_per_s) for w in found] == [
        ("plan-1", "chat", PREFILL, 2, 2.0),
        ("plan-1", "chat", DECODE, 1, 2.0),
        ("plan-1", "chat", WHOLE, 1, 2.0),
    ]
    for each, entry in zip(found, plan.instances, strict=True):
        t = each.template
        assert each.column == (entry.template_id, entry.zone, entry.market)
        assert t.id == template_id(t.model, t.model_revision, t.dtype, t.engine, t.dispatch, t.nodes, t.placement)


def test_a_plan_that_does_not_say_what_its_templates_run_is_refused() -> None:
    with pytest.raises(ValueError, match="does not say what template"):
        wanted(plan_of([replace(planned(), placement=None)], [], []))


def test_a_phase_that_no_gateway_routes_to_is_refused() -> None:
    with pytest.raises(ValueError, match="phase 'encode'"):
        wanted(plan_of([planned(phase="encode")], [], []))
