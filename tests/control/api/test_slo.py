"""Objectives over time: what gateways said, minute by minute, against what was promised."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from sqlalchemy import delete, insert

from control.alerts.watch import AlertWatch
from control.api.attainment import percentile_s
from control.api.slo_sampler import SloSampler, at_addresses, each_gateway
from control.db.api_tables import slo_sample
from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.reconcile_tables import fleet
from control.db.slo_samples import Judged, LatencyHistogram, PostgresSloSamples, SloSample, added
from policies.attainment import burn_rate, share_within
from policies.correction import Correction
from templates_lib.values.plan import Attained
from tests.control.api.conftest import Api
from tests.control.api.worlds import kept_plan, spec
from tests.http_endpoint import Asked, Said, serving

MODEL = "smollm2-135m-instruct"


class Gateway:
    """As a gateway's metrics are read."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ("medley_gateway_time_to_first_token_seconds", "medley_gateway_time_per_output_token_seconds")
        labels = ["model", "work_class", "objective", "kept"]
        self.judged = Counter("medley_gateway_judged_answers", "A test.", labels, registry=self.registry)
        self.ttft, self.tpot = (
            Histogram(name, "A test.", ["model"], buckets=(1, 10, 60, 120), registry=self.registry) for name in names
        )

    def answered(self, ttft_s: float, tpot_s: float) -> None:
        self.judged.labels(MODEL, f"{MODEL}/prefill", "ttft", "true" if ttft_s <= 60 else "false").inc()
        self.judged.labels(MODEL, f"{MODEL}/decode", "tpot", "true").inc()
        self.ttft.labels(MODEL).observe(ttft_s)
        self.tpot.labels(MODEL).observe(tpot_s)

    def metrics(self, _: Asked) -> Said:
        return Said(generate_latest(self.registry), headers={"content-type": "text/plain"})


def test_attainment_is_what_gateways_measured(operator: Api, database: Database) -> None:
    operator.post(
        "/fleets", {"spec": spec(), "mode": "approve"}
    )  # 60 s to the first token, 6 s a token, at the 95th percentile
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=10)
    gateway = Gateway()
    gateway.answered(100, 100)  # before anybody looked

    async def look(url: str) -> None:
        at = minute
        sampler, other = (SloSampler(database, (url,), lambda: at + timedelta(seconds=1)) for _ in range(2))
        async with httpx.AsyncClient(timeout=60) as client:
            for answers in ((5.0,) * 9 + (100.0,), (5.0,) * 10, ()):
                await sampler.look(client, url)
                await other.look(client, url)  # of another API process
                for ttft_s in answers:
                    gateway.answered(ttft_s, 0.5)
                at += timedelta(minutes=1)
            at += timedelta(minutes=5)  # a pause: what came in it is of no minute
            await sampler.look(client, url)

    with serving(gateway.metrics) as endpoint:
        asyncio.run(look(endpoint.url))
        assert len(PostgresSloSamples(database).read([MODEL], minute, datetime.now(UTC))) == 2

    span = (
        f"since={minute.isoformat().replace('+00:00', 'Z')}&until={(minute + timedelta(minutes=3)).isoformat()[:19]}Z"
    )
    (model,) = operator.get(f"/fleets/chat/slo?points=3&{span}").json()["models"]
    assert (model["model"], model["ttft_ms"], model["percentile"]) == (MODEL, 60_000, 95)
    first, second, third = model["items"]
    assert (first["ttft"]["observed"], first["ttft"]["within"]) == (10, pytest.approx(0.9))
    assert first["ttft"]["burn_rate"] == pytest.approx(2.0)
    assert 1000 <= first["ttft"]["p50_ms"] <= 10_000 < first["ttft"]["p99_ms"] <= 120_000
    assert (second["ttft"]["within"], second["tpot"]["burn_rate"]) == (1.0, pytest.approx(0.0))
    assert (third["ttft"]["observed"], third["ttft"]["within"], third["ttft"]["burn_rate"]) == (0, None, None)
    whole = model["ttft"]
    assert (whole["observed"], whole["within"], whole["burn_rate"]) == (20, pytest.approx(0.95), pytest.approx(1.0))
    assert (model["tpot"]["observed"], model["tpot"]["within"]) == (20, 1.0)
    assert model["work"] == [
        {"work_class": f"{MODEL}/decode", "objective": "tpot", "answers": 20, "kept": 20},
        {"work_class": f"{MODEL}/prefill", "objective": "ttft", "answers": 20, "kept": 19},
    ]


def test_an_objective_that_is_missed_is_an_alert_until_its_fleet_is_gone(operator: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec(), "mode": "approve"})
    now = datetime.now(UTC)
    minute, late = now.replace(second=0, microsecond=0), LatencyHistogram((60.0, None), (88.0, 12.0))
    in_time = LatencyHistogram((6.0, None), (96.0, 4.0))
    PostgresSloSamples(database).add([SloSample("one", MODEL, minute - timedelta(minutes=9), late, in_time)])
    AlertWatch(database, lambda: now).step()
    (alert,) = operator.get("/alerts").json()["items"]
    assert (alert["kind"], alert["severity"]) == ("objective.missed", "critical")
    assert MODEL in alert["subject"]
    with database.transaction() as connection:
        connection.execute(delete(fleet))
    AlertWatch(database, lambda: now + timedelta(seconds=30)).step()
    assert operator.get("/alerts").json()["items"] == []


def test_what_is_promised_stands_beside_what_is_kept(operator: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec(), "mode": "approve"})
    (model,) = operator.get("/fleets/chat/slo").json()["models"]
    assert model["promises"] == []  # nothing is planned yet
    prefill, decode, now = f"{MODEL}/prefill", f"{MODEL}/decode", datetime.now(UTC)
    promised = {prefill: Attained(0.991, 99, 24_000, 0), decode: Attained(0.998, 99, 24_000, 0)}
    fleets, plan = PostgresFleets(database), kept_plan(database, "chat", attainment=promised)
    fleets.accept(fleets.target("chat"), plan.id, "ada", "", now)
    minute, nothing = now.replace(second=0, microsecond=0), LatencyHistogram((None,), (0.0,))
    PostgresSloSamples(database).add(
        SloSample(gateway, MODEL, minute - timedelta(minutes=ago), nothing, nothing, (Judged(prefill, "ttft", 50, 48),))
        for gateway in ("one", "other")
        for ago in range(1, 11)
    )
    PostgresCorrections(database).put("chat", {prefill: Correction(0.81, minute, "too few")})
    (model,) = operator.get("/fleets/chat/slo").json()["models"]
    first, second = model["promises"]
    assert (first["work_class"], first["percentile"], first["share"]) == (decode, 99, 0.998)
    assert (first["kept"], first["correction"]) == ([], None)
    assert (second["work_class"], second["requests"]) == (prefill, 24_000)
    (kept,) = second["kept"]
    assert (kept["objective"], kept["answers"], kept["share"]) == ("ttft", 1000, pytest.approx(0.96))
    assert kept["low"] < 0.96 < kept["high"] < 0.99
    assert (second["correction"]["factor"], second["correction"]["reason"]) == (0.81, "too few")


def test_a_gateway_that_was_started_again_counts_from_nothing(database: Database) -> None:
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=10)
    gateways = [Gateway(), Gateway()]
    for _ in range(5):
        gateways[0].answered(5, 1)
    gateways[1].answered(100, 1)
    now = [minute]
    sampler = SloSampler(database, (), lambda: now[0])

    async def look(url: str) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            for _ in range(2):
                await sampler.look(client, url)
                now[0] += timedelta(minutes=1)

    def metrics(asked: Asked) -> Said:
        return gateways[(now[0] - minute) // timedelta(minutes=1)].metrics(asked)

    with serving(metrics) as endpoint:
        asyncio.run(look(endpoint.url))
    (sample,) = PostgresSloSamples(database).read([MODEL], minute, datetime.now(UTC))
    assert set(sample.judged) == {Judged(f"{MODEL}/prefill", "ttft", 1, 0), Judged(f"{MODEL}/decode", "tpot", 1, 1)}


def test_a_sample_of_the_release_before_judges_no_answer(database: Database) -> None:
    minute, nothing = datetime.now(UTC).replace(second=0, microsecond=0), {"bounds_s": [None], "counts": [3.0]}
    row = {"gateway": "g", "model": MODEL, "begins_at": minute, "ttft": nothing, "tpot": nothing}
    with database.transaction() as connection:
        connection.execute(insert(slo_sample).values(row))
    (sample,) = PostgresSloSamples(database).read([MODEL], minute, minute + timedelta(minutes=1))
    assert (sample.ttft.counts, sample.judged) == ((3.0,), ())


def test_a_name_with_several_addresses_is_several_gateways() -> None:
    url = "http://gateway.medley.internal:8000"
    assert at_addresses(url, ["10.0.1.7", "10.0.0.9"]) == ["http://10.0.0.9:8000", "http://10.0.1.7:8000"]
    assert at_addresses(url, ["fd00::2", "fd00::1", "10.0.0.9"]) == ["http://[fd00::1]:8000", "http://[fd00::2]:8000"]
    assert at_addresses(url, ["10.0.0.9", "fd00::1"]) == [url]
    for one in ("http://localhost:8000", "https://models.example.com", "http://no-such-name.invalid:8000"):
        assert asyncio.run(each_gateway(one)) == [one]


def test_shares_and_percentiles_lie_within_their_buckets() -> None:
    part = LatencyHistogram((1.0, 2.0, None), (2.0, 2.0, 1.0))
    whole = added([part, part])
    assert sum(whole.values()) == 10
    assert percentile_s(whole, 40) == pytest.approx(1.0)
    assert percentile_s(whole, 60) == pytest.approx(1.5)
    assert percentile_s(whole, 99) is None
    assert share_within(whole, 1.5) == pytest.approx(0.6)
    assert share_within(whole, 100.0) == pytest.approx(0.8)
    assert burn_rate(0.8, 90.0) == pytest.approx(2.0)
    assert percentile_s({}, 50) is share_within({}, 1.0) is burn_rate(None, 99.0) is None
