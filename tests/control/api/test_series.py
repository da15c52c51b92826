"""Time series: what was asked, how fast it was answered, how busy instances were, and the hours that samples become."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from agents.messages.to_demand_desk import Offered, OfferedLine
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.fleet_tables import node
from control.db.fleets import PostgresFleets
from control.db.load_series import PostgresLoadSeries
from control.db.series_tables import capacity_sample, instance_load, load_hour
from control.db.slo_samples import Judged, LatencyHistogram, PostgresSloSamples, SloSample
from control.fleet.capacities import capacities
from control.lifecycle.node_load import NodeLoad
from templates_lib.values.plan import Attained
from tests.control.api.conftest import Api
from tests.control.api.worlds import OFFER, kept_plan, serving, spec

MODEL = "smollm2-135m-instruct"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def whole(now: datetime, step: timedelta) -> datetime:
    return datetime.fromtimestamp(now.timestamp() // step.total_seconds() * step.total_seconds(), UTC)


@pytest.fixture
def at() -> datetime:
    """A whole five minutes, ten to fifteen minutes ago."""
    return whole(datetime.now(UTC), 5 * MINUTE) - 10 * MINUTE


@pytest.fixture
def served(operator: Api, database: Database, at: datetime) -> Iterator[str]:
    """A fleet that serves, and the id of its only instance, whose node reports."""
    operator.post("/fleets", {"spec": spec(), "mode": "approve"})
    promised = {f"{MODEL}/aggregated": Attained(0.97, 95, 24_000, 0)}
    plan, fleets = kept_plan(database, "chat", attainment=promised), PostgresFleets(database)
    fleets.accept(fleets.target("chat"), plan.id, "ada", "", at)
    instance = serving(database, "chat", at - HOUR)
    rented(database, instance.id, "n-0", at - HOUR, NodeLoad(0.5, 300, "ready", 3, 1, 64, 16))
    return instance.id


def rented(database: Database, instance: str, name: str, since: datetime, load: NodeLoad, place: int = 0) -> None:
    row = {
        "name": name, "instance_id": instance, "place": place, "offer": OFFER.key, "cloud": "aws", "provider_id": name,
        "requested_at": since, "created_at": since, "last_heartbeat": datetime.now(UTC), "load": load,
        "usd_per_hour": OFFER.usd_per_hour, "project": "default", "model": MODEL,
    }  # fmt: skip
    database.write(insert(node).values(row))


def asked_of(database: Database, at: datetime, requests: int, refused: int = 0) -> None:
    """In the minute from `at` on; of 10 tokens and 5."""
    kept = requests - refused
    line = OfferedLine(
        "chat", MODEL, "chat", "p", requests, refused, 10 * requests, 5 * requests, kept, 10 * kept, 5 * kept
    )
    PostgresDemand(database).record([("g", Offered("l", int(at.timestamp()), 60, 1, (line,)))], datetime.now(UTC))


def answered(database: Database, at: datetime, fast: int, slow: int, judged: tuple[Judged, ...] = ()) -> None:
    """Within a second, and within 100; the objective is 60."""
    seen = LatencyHistogram((1.0, 100.0, None), (float(fast), float(slow), 0.0))
    PostgresSloSamples(database).add([SloSample("g", MODEL, at, seen, seen, judged)])


def series(api: Api, since: datetime, until: datetime, **of: Any) -> Mapping[str, Any]:
    names = {"since": since.isoformat()[:19] + "Z", "until": until.isoformat()[:19] + "Z"} | of
    answer = api.get("/series?" + "&".join(f"{name}={value}" for name, value in names.items()))
    assert answer.status_code == 200, answer.text
    found: Mapping[str, Any] = answer.json()
    return found


def test_each_minute_says_what_was_asked_and_how_it_was_answered(
    viewer: Api, database: Database, served: str, at: datetime
) -> None:
    asked_of(database, at, 120, refused=30)
    asked_of(database, at + MINUTE, 60)
    answered(database, at, 9, 1)
    ttft = (Judged(f"{MODEL}/prefill", "ttft", 10.0, 8.0),)
    answered(database, at + 2 * MINUTE, 9, 1, ttft)
    found = series(viewer, at, at + 4 * MINUTE, fleet="chat", model=MODEL)
    assert (found["step_s"], len(found["at"])) == (60, 4)
    traffic = found["traffic"]
    assert traffic["requests_per_s"] == [2.0, 1.0, None, None]
    assert traffic["refused_per_s"][:2] == [0.5, 0.0]
    assert traffic["prompt_tokens_per_s"][:2] == [15.0, 10.0]
    assert traffic["output_tokens_per_s"][:2] == [7.5, 5.0]
    (model,) = found["models"]
    assert (model["fleet"], model["model"], model["traffic"]) == ("chat", MODEL, traffic)
    ttft, tpot = model["latencies"]
    assert (ttft["limit_ms"], ttft["percentile"], ttft["answers"]) == (60_000, 95, [10, 0, 10, 0])
    assert 0 < ttft["p50_ms"][0] < 1000 < ttft["p99_ms"][0] < 100_000
    assert ttft["kept"][1] is None
    assert ttft["kept"][0] == pytest.approx(0.9 + 0.1 * 59 / 99)  # read off the histogram
    assert ttft["kept"][2] == pytest.approx(0.8)  # as gateways judged it
    assert (tpot["objective"], ttft["promised"], ttft["certified"]) == ("tpot", 0.95, 0.97)


def test_load_is_what_nodes_said_however_many_looked(
    viewer: Api, database: Database, served: str, at: datetime
) -> None:
    now = datetime.now(UTC)
    sampled, stored = whole(now, 5 * MINUTE), PostgresLoadSeries(database)
    stored.look(capacities(database), now)
    database.write(node.update().values(load=NodeLoad(1.5, 300, "ready", 5, 0, 64, 32)))
    stored.look(capacities(database), now)
    step = series(viewer, sampled, sampled + MINUTE, points=1)
    load = step["load"]
    assert (load["instances"], load["running"], load["waiting"]) == ([1.0], [4.0], [0.5])
    assert (load["kv_used"], load["cpu"]) == ([pytest.approx(0.625)], [1.0])
    of_it = [series(viewer, sampled, sampled + MINUTE, **of) for of in ({"instance": served}, {"zone": OFFER.zone_id})]
    assert [each["load"]["running"] for each in of_it] == [[4.0], [4.0]]
    assert all(each["traffic"] is None and each["models"] == [] for each in of_it)
    other = series(viewer, sampled, sampled + MINUTE, zone="elsewhere")
    assert (other["load"]["instances"], other["load"]["kv_used"]) == ([0.0], [None])
    before = series(viewer, at - HOUR, at - HOUR + MINUTE)
    assert before["load"]["running"] == [None]


def test_utilisation_is_what_was_served_of_what_was_ready(
    viewer: Api, database: Database, served: str, at: datetime
) -> None:
    key = {"fleet": "chat", "begins_at": at, "looks": 2}
    rows = [
        key | {"work_class": f"{MODEL}/{phase}", "units_per_s": 2 * u} for phase, u in (("prefill", 40), ("decode", 10))
    ]
    database.write(insert(capacity_sample), rows)
    asked_of(database, at, 60)  # 10 prompt tokens/s, a quarter; 5 output tokens/s, a half
    (model,) = series(viewer, at, at + 2 * MINUTE)["models"]
    assert model["utilisation"] == [0.5, None]
    assert capacities(database) == {("chat", f"{MODEL}/aggregated"): 1.0}


def test_cost_is_of_what_is_asked_for(viewer: Api, database: Database, served: str, at: datetime) -> None:
    span = at, at + 2 * MINUTE
    for of in ({}, {"fleet": "chat"}, {"model": MODEL}, {"zone": OFFER.zone_id}, {"instance": served}):
        assert series(viewer, *span, **of)["usd_per_hour"] == pytest.approx([OFFER.usd_per_hour] * 2), of
    for of in ({"fleet": "other"}, {"model": "other"}, {"zone": "other"}, {"instance": "other"}):
        assert series(viewer, *span, **of)["usd_per_hour"] == [0.0, 0.0], of


def test_minutes_become_hours_that_say_the_same(viewer: Api, database: Database, served: str) -> None:
    now = datetime.now(UTC)
    begin = whole(now - timedelta(days=2), HOUR)
    for number in range(90):
        answered(database, begin + number * MINUTE, 9, number % 3, (Judged(f"{MODEL}/prefill", "ttft", 10.0, 9.0),))
    before = series(viewer, begin, begin + 2 * HOUR, points=2)["models"][0]["latencies"]
    PostgresSloSamples(database).roll_up(now)
    after = series(viewer, begin, begin + 2 * HOUR, points=2)["models"][0]["latencies"]
    assert after == before
    assert after[0]["answers"] == [600, 300]
    PostgresSloSamples(database).roll_up(now + timedelta(days=15))
    assert PostgresSloSamples(database).read([MODEL], begin, now) == ()
    assert series(viewer, begin, begin + 2 * HOUR, points=2)["models"][0]["latencies"] == before


def test_samples_of_instances_become_hours_of_zones(viewer: Api, database: Database, served: str) -> None:
    now = datetime.now(UTC)
    begin = whole(now - timedelta(days=1, hours=12), HOUR)
    level = {"looks": 2, "running": 8.0, "waiting": 0.0, "kv_blocks": 128.0, "kv_used": 32.0, "cpu": 1.0}
    own = {"fleet": "chat", "model": MODEL, "zone": OFFER.zone_id}
    first = [own | level | {"instance_id": "a", "begins_at": begin + 5 * n * MINUTE} for n in range(12)]
    late = [own | level | {"instance_id": "b", "begins_at": begin + 5 * n * MINUTE} for n in range(6, 12)]
    database.write(insert(instance_load), first + late)
    before = series(viewer, begin, begin + HOUR, points=1)["load"]
    stored = PostgresLoadSeries(database)
    stored.roll_up(now)
    stored.roll_up(now + timedelta(days=3))
    (left,) = database.read_column(select(func.count()).select_from(instance_load))
    assert (left, len(database.read(select(load_hour)))) == (0, 1)
    after = series(viewer, begin, begin + HOUR, points=1)["load"]
    assert after == before
    assert (after["instances"], after["running"], after["kv_used"]) == ([1.5], [6.0], [0.25])
    assert series(viewer, begin, begin + HOUR, points=1, zone="elsewhere")["load"]["running"] == [0.0]
    stored.roll_up(now + timedelta(days=500))
    assert database.read(select(load_hour)) == []


@pytest.mark.parametrize(
    ("span", "step_s"),
    [(HOUR, 60), (6 * HOUR, 300), (24 * HOUR, 900), (timedelta(days=7), 7200), (timedelta(days=30), 21_600)],
)
def test_steps_are_whole_ones_of_the_clock(viewer: Api, span: timedelta, step_s: int) -> None:
    now = datetime.now(UTC)
    found = series(viewer, now - span, now)
    begins = [datetime.fromisoformat(each) for each in found["at"]]
    assert found["step_s"] == step_s
    assert all(begin.timestamp() % step_s == 0 for begin in begins)
    assert begins[0] <= now - span + timedelta(seconds=1)
    assert len(found["usd_per_hour"]) == len(begins) <= 121


def test_a_span_that_ends_before_it_begins_is_refused(viewer: Api) -> None:
    now = datetime.now(UTC)
    answer = viewer.get(f"/series?since={now.isoformat()[:19]}Z&until={(now - HOUR).isoformat()[:19]}Z")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "query.since"
