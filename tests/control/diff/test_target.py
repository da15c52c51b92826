"""What a plan says of what is to run."""

from dataclasses import replace

import pytest

from control.diff.target import targets
from templates_lib.values.template import template_id
from tests.control.fleet.fleets import plan_of, planned


def test_a_plan_says_all_that_whoever_launches_needs() -> None:
    plan = plan_of(
        [planned(2, "prefill"), planned(1, "decode", layers=(3, 3)), planned(1, "aggregated", layers=(6,))], [], []
    )
    found = targets(plan)
    assert [(w.plan_id, w.model, w.count, w.units_per_s) for w in found] == [
        ("plan-1", "chat", 2, {"chat/prefill": 2.0}),
        ("plan-1", "chat", 1, {"chat/decode": 2.0}),
        ("plan-1", "chat", 1, {"chat/aggregated": 2.0}),
    ]
    for each, entry in zip(found, plan.instances, strict=True):
        t = each.template
        assert each.column == (entry.template_id, entry.zone, entry.market)
        assert t.id == template_id(t.model, t.model_revision, t.dtype, t.engine, t.dispatch, t.nodes, t.placement)


def test_a_plan_that_does_not_say_what_its_templates_run_is_refused() -> None:
    with pytest.raises(ValueError, match="does not say what template"):
        targets(plan_of([replace(planned(), placement=None)], [], []))
