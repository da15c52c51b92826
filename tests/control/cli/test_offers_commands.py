"""`medley offers`: asked, listed, doubted, left out, and given up again."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from control.cli.main import app
from control.cloud.errors import StockOutError
from control.db.database import Database
from control.db.live_offers import PostgresOffers
from control.market.answers import note_refusal
from templates_lib.values.offer import Offer
from tests.http_endpoint import Asked, Endpoint, Said, serving

L40S = "runpod/any/1x_L40S_SECURE/on-demand"


@pytest.fixture
def prices() -> dict[str, float]:
    """$ per GPU and hour; change it between calls."""
    return {"L40S": 0.79, "L4": 0.43}


@pytest.fixture
def runpod(prices: dict[str, float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Endpoint]:
    """RunPod on this machine; credentials of no other cloud."""

    def answer(asked: Asked) -> Said:
        if asked.headers["authorization"] != "Bearer right":
            return Said({}, 401)
        kinds: list[dict[str, Any]] = [
            {"displayName": name, "securePrice": price, "x1": {"uninterruptablePrice": price, "stockStatus": "High"}}
            for name, price in prices.items()
        ]
        return Said({"data": {"gpuTypes": kinds}})

    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("RUNPOD_API_KEY", "right")
    with serving(answer) as endpoint:
        monkeypatch.setenv("RUNPOD_API_BASE_URL", endpoint.url)
        yield endpoint


@pytest.fixture
def offers(database_url: str, runpod: Endpoint) -> Any:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["offers", *arguments, "--database-url", database_url])

    return run


def listed(offers: Any, *arguments: str) -> dict[str, Any]:
    found = json.loads(offers("list", "--cloud", "runpod", *arguments, "-o", "json").stdout)
    return {f"runpod/any/{o['instance_type']}/{o['market']}": o for o in found}


def test_a_list_is_short_filtered_and_says_how_old_prices_are(offers: Any) -> None:
    every = json.loads(offers("list", "--cloud", "aws", "--gpu", "L4", "-o", "json").stdout)
    shown = offers("list", "--cloud", "aws", "--gpu", "L4", "--limit", "2")
    assert shown.stdout.count("aws-") == 2 < len(every)
    assert f"2 of {len(every)} offers" in shown.stderr
    assert "days old" in shown.stderr
    spot = ("--market", "spot", "--max-price", "0.5")
    cheap = json.loads(offers("list", "--cloud", "aws", "--gpu", "L4", *spot, "-o", "json").stdout)
    assert 0 < len(cheap) < len(every)
    assert {o["market"] for o in cheap} == {"spot"}


def test_a_round_stores_who_answers_and_names_who_is_left_out(offers: Any) -> None:
    before = offers("list", "--cloud", "aws", "--region", "us-east-2", "--gpu", "L4")
    assert "aws-skypilot-v9" in before.stdout
    done = offers("refresh")
    assert done.exit_code == 0
    assert "runpod: 2 offers (runpod-api)" in done.stdout
    assert "aws: left out (aws-api): no AWS credentials were found" in done.stdout
    assert "gcp: left out (gcp-api): no GCP credentials were found" in done.stdout
    assert set(listed(offers)) == {L40S, "runpod/any/1x_L4_SECURE/on-demand"}
    table = offers("list", "--cloud", "runpod")
    assert " s  runpod-api" in table.stdout
    assert "Note: prices of runpod are live (runpod-api), read at" in table.stderr
    of_aws = ("list", "--cloud", "aws", "--region", "us-east-2", "--gpu", "L4")
    assert "Note: aws is left out: no AWS credentials were found" in offers(*of_aws).stderr
    assert {o["available_count"] for o in json.loads(offers(*of_aws, "-o", "json").stdout)} == {0}
    assert offers("forget", "aws").exit_code == 0
    assert {o["available_count"] for o in json.loads(offers(*of_aws, "-o", "json").stdout)} == {None}


def test_it_fails_when_nobody_answers(offers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", "wrong")
    done = offers("refresh", "--cloud", "runpod")
    assert done.exit_code == 1
    assert "runpod: left out (runpod-api): RunPod does not take the API key (401)" in done.stdout
    assert "wrong" not in done.output


def test_an_impossible_price_waits_for_a_person(offers: Any, prices: dict[str, float]) -> None:
    offers("refresh", "--cloud", "runpod")
    prices["L40S"] = 7.9
    assert f"left out {L40S}: price $7.9/h is more than 3x off" in offers("refresh", "--cloud", "runpod").stderr
    found = listed(offers)
    assert (found[L40S]["usd_per_hour"], found[L40S]["available_count"]) == (0.79, 0)
    assert "is not in quarantine; in it are: runpod/any/1x_L40S" in offers("accept", "x").stderr
    assert offers("accept", L40S).stdout == f"Price of {L40S} accepted: 7.9 $/h.\n"
    found = listed(offers)
    assert (found[L40S]["usd_per_hour"], found[L40S]["available_count"]) == (7.9, None)
    changes = json.loads(offers("history", L40S, "-o", "json").stdout)
    assert [point["usd_per_hour"] for point in changes] == [0.79, 7.9]
    assert "7.9000 $/h  runpod-api" in offers("history", L40S).stdout
    assert "No price of x is recorded" in offers("history", "x").stdout


def test_what_was_refused_is_shown_with_how_often_it_was_asked(offers: Any, database: Database) -> None:
    assert "No cloud was asked for a node" in offers("calls").stdout
    offers("refresh", "--cloud", "runpod")
    (refused,) = [o for o in _stored(database) if o.key == L40S]
    note_refusal(database, refused, StockOutError("no L40S left"), datetime.now(UTC))
    (line,) = json.loads(offers("calls", "-o", "json").stdout)
    assert (line["subject"], line["calls"], line["most_in_a_minute"], line["outcome"]) == (L40S, 1, 1, "stock-out")
    assert line["avoided_until"]
    assert "no L40S left" in offers("calls").stdout
    assert listed(offers)[L40S]["available_count"] == 0


def _stored(database: Database) -> tuple[Offer, ...]:
    return PostgresOffers(database).markets()["runpod"].offers
