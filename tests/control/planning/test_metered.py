"""A spec that lets demand be metered, as rules; and what operators say instead."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from control.db.database import Database
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.fleet_file.problem import SpecError
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.planning.world import World, read_world
from control.reconcile.metered_demand import MeteredDemand
from policies.forecast import Ewma, Last
from policies.headroom_forecast import Headroom
from policies.seasonal_forecast import Seasonal

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: small
models:
  - model: gpt-oss-20b
    slo: {{ttft_ms: 900, tpot_ms: 30, max_prompt_tokens: {limit}, keep: throughput}}
    workload: azure-code
    demand: {demand}
clouds:
  - {{cloud: aws, regions: [us-east-2], gpus: [L4]}}
"""
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def world(folder: Path, demand: str, limit: int = 0) -> World:
    path = folder / "fleet.yaml"
    path.write_text(SPEC.format(demand=demand, limit=limit))
    return read_world(path)


def test_metered_alone_is_a_mean_of_late_with_head_room_that_may_go_to_zero(tmp_path: Path):
    made = world(tmp_path, "metered")
    (rule,) = made.fleet.demand_rules
    assert rule.forecast == Headroom(Ewma(900.0), 0.9, 86_400.0)
    assert (rule.floor_requests_per_s, rule.ceiling_requests_per_s, rule.idle_s) == (0.0, float("inf"), 1800.0)
    engines = made.recipe.engines
    startup = max(made.fleet.settings.startup_minutes_of(engine) for engine in engines)
    assert rule.horizon_s == 60 * (made.fleet.reconcile.replan_minutes + startup)
    assert [d.requests_per_s for d in made.demand] == [0.0]


@pytest.mark.parametrize(
    ("forecast", "expected"),
    [
        ("{policy: last, quantile: null}", Last()),
        ("{policy: seasonal, period: week, half_life_minutes: 30, quantile: null}", Seasonal(604_800.0, 1800.0)),
        ("{quantile: 0.5, window_hours: 1}", Headroom(Ewma(900.0), 0.5, 3600.0)),
    ],
)
def test_a_forecast_is_chosen_per_model(tmp_path: Path, forecast: str, expected: object):
    (rule,) = world(tmp_path, f"{{metered: true, forecast: {forecast}, floor_requests_per_s: 2}}").fleet.demand_rules
    assert rule.forecast == expected
    assert rule.floor_requests_per_s == 2


def test_long_prompts_have_a_rule_and_a_share_of_their_own(tmp_path: Path):
    made = world(tmp_path, "{metered: true, floor_requests_per_s: 10}", 4000)
    short, longer = made.fleet.demand_rules
    assert (short.app, longer.app, short.model, longer.model) == (
        "gpt-oss-20b",
        "gpt-oss-20b-long",
        *["gpt-oss-20b"] * 2,
    )
    assert short.share + longer.share == pytest.approx(1)
    assert [d.requests_per_s for d in made.demand] == pytest.approx([10 * short.share, 10 * longer.share])


@pytest.mark.parametrize(
    ("demand", "complaint"),
    [
        ("{metered: true, requests_per_s: 3}", "give one of requests_per_s, trace and metered"),
        ("{requests_per_s: 3, idle_minutes: 3}", "idle_minutes belong to metered demand"),
        ("{metered: true, floor_requests_per_s: 3, ceiling_requests_per_s: 2}", "ceiling 2 is below floor 3"),
        ("{metered: true, forecast: {policy: lst}}", "unknown value 'lst'"),
        ("measured", "demand"),
    ],
)
def test_mistakes_are_named_at_their_line(tmp_path: Path, demand: str, complaint: str):
    with pytest.raises(SpecError, match=r"fleet\.yaml:8: ") as caught:
        world(tmp_path, demand)
    assert complaint in str(caught.value)


def test_what_an_operator_says_counts_for_stated_demand_too(tmp_path: Path, database: Database):
    made = world(tmp_path, "{requests_per_s: 10}", 4000)
    record = FleetRecord("small", "default", "", "", FleetMode.OBSERVE, 1, False, NOW.isoformat())
    source = MeteredDemand(database)
    assert source.demand(record, made, NOW) == made.demand
    said = Override("gpt-oss-20b", 30.0, "ada", "a launch", NOW, NOW + timedelta(hours=1))
    PostgresDemandOverrides(database).set("small", said)
    tripled = source.demand(record, made, NOW)
    assert [d.requests_per_s for d in tripled] == pytest.approx([3 * d.requests_per_s for d in made.demand])
    (why,) = source.overridden("small", NOW)
    assert why.subject == "gpt-oss-20b"
    assert all(part in why.text for part in ("30 requests/s", "ada", "a launch"))
    assert source.demand(record, made, NOW + timedelta(hours=1)) == made.demand
    assert source.overridden("small", NOW + timedelta(hours=1)) == ()
