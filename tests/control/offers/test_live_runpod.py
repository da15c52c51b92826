"""RunPod's offers from a server that speaks its GraphQL interface."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from control.offers.live.runpod import RunPodOffers
from control.offers.live.runpod_account import runpod_quotas, runpod_sold
from control.offers.live.source import NoAccessError, NoAnswerError
from control.offers.selection import Selection
from templates_lib.values.offer import Market
from tests.control.market.markets import NOON
from tests.http_endpoint import Asked, Endpoint, Said, serving

KEY = "rpa_SECRET"
ALL = Selection("runpod", markets=(Market.ON_DEMAND, Market.SPOT))


def size(spot: float | None, on_demand: float | None, stock: str | None) -> dict[str, Any]:
    return {"minimumBidPrice": spot, "uninterruptablePrice": on_demand, "stockStatus": stock}


GPU_TYPES = [
    {"id": "NVIDIA L40S", "displayName": "L40S", "securePrice": 0.86, "secureSpotPrice": 0.5,
     "x1": size(0.26, 0.79, "High"), "x2": size(0.26, 0.79, "Low"), "x4": size(None, None, None), "x8": None},
    {"id": "NVIDIA A100-SXM4-80GB", "displayName": "A100 SXM", "securePrice": 1.49, "secureSpotPrice": None,
     "x1": size(None, 1.49, "Medium"), "x2": None, "x4": None, "x8": None},
    {"id": "unknown", "displayName": "RTX 9999", "securePrice": 1, "x1": size(1, 1, "High")},
]  # fmt: skip


def fetch(endpoint: Endpoint, selection: Selection = ALL, **environment: str) -> dict[str, tuple[float, int | None]]:
    told = {"RUNPOD_API_BASE_URL": endpoint.url, "RUNPOD_API_KEY": KEY, "HOME": "/nowhere"} | environment
    answer = RunPodOffers([selection], told).fetch(NOON)
    assert {o.node_config for o in answer.offers} <= answer.configs.keys()
    return {o.key: (o.usd_per_hour, o.available_count) for o in answer.offers}


def answered(asked: Asked) -> Said:
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return Said({"errors": [{"message": "Unauthorized"}]}, 401)
    assert asked.path == "/graphql"
    assert "gpuTypes" in asked.json["query"]
    return Said({"data": {"gpuTypes": GPU_TYPES}})


def test_prices_per_gpu_become_prices_of_machines_and_no_stock_is_none() -> None:
    with serving(answered) as endpoint:
        assert fetch(endpoint) == {
            "runpod/any/1x_L40S_SECURE/on-demand": (0.79, None),
            "runpod/any/1x_L40S_SECURE/spot": (0.26, None),
            "runpod/any/2x_L40S_SECURE/on-demand": (1.58, None),
            "runpod/any/2x_L40S_SECURE/spot": (0.52, None),
            "runpod/any/4x_L40S_SECURE/on-demand": (3.44, 0),
            "runpod/any/4x_L40S_SECURE/spot": (2.0, 0),
            "runpod/any/1x_A100-80GB-SXM_SECURE/on-demand": (1.49, None),
        }
        narrow = Selection("runpod", gpus=("L40S",), counts=(1,))
        assert list(fetch(endpoint, narrow)) == ["runpod/any/1x_L40S_SECURE/on-demand"]


def test_the_key_of_runpods_own_tools_is_found(tmp_path: Path) -> None:
    file = tmp_path / ".runpod" / "config.toml"
    file.parent.mkdir()
    with serving(answered) as endpoint:
        with pytest.raises(NoAccessError, match="no RunPod API key was found"):
            fetch(endpoint, RUNPOD_API_KEY="", HOME=str(tmp_path))
        file.write_text(f'[default]\napi_key = "{KEY}"\n')
        assert fetch(endpoint, RUNPOD_API_KEY="", HOME=str(tmp_path))
        file.write_text("[default")
        with pytest.raises(NoAccessError, match="cannot be read"):
            fetch(endpoint, RUNPOD_API_KEY="", HOME=str(tmp_path))
        with pytest.raises(NoAccessError, match="does not take the API key") as refused:
            fetch(endpoint, RUNPOD_API_KEY="rpa_OLD")
    assert "rpa_" not in str(refused.value)


def test_throttling_is_waited_out() -> None:
    refusals = [Said({}, 429, {"retry-after": "0"}), Said({}, 503)]

    with serving(lambda asked: refusals.pop() if refusals else answered(asked)) as endpoint:
        assert len(fetch(endpoint)) == 7
        assert len(endpoint.asked) == 3


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said({"errors": [{"message": "Something broke"}]}), "RunPod: Something broke"),
        (Said(b"<html>"), "not what it documents"),
        (Said({"data": None}), "not what it documents"),
        (Said([1]), "not what it documents"),
        (Said({}, 404), "status 404"),
        (Said({}, 302, {"location": "http://127.0.0.1:9/steal"}), "redirect|status 302"),
    ],
)
def test_an_answer_of_another_form_is_none(said: Said, words: str) -> None:
    with serving(lambda _: said) as endpoint, pytest.raises(NoAnswerError, match=words):
        fetch(endpoint)


def test_the_key_goes_nowhere_unencrypted() -> None:
    with pytest.raises(NoAccessError, match="must begin with https://"):
        fetch(Endpoint("http://api.runpod.example"))


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.offers.live.runpod_access.MAX_BYTES", 100)
    with serving(answered) as endpoint, pytest.raises(NoAnswerError, match="more than 100 bytes"):
        fetch(endpoint)


def test_an_account_may_spend_so_much_an_hour_and_has_so_much() -> None:
    account: dict[str, Any] = {"clientBalance": 5.0, "currentSpendPerHr": 1.5, "spendLimit": 80}

    def answer(asked: Asked) -> Said:
        return Said({"data": {"myself": account}}) if "myself" in asked.json["query"] else answered(asked)

    with serving(answer) as endpoint:
        told = {"RUNPOD_API_BASE_URL": endpoint.url, "RUNPOD_API_KEY": KEY, "HOME": "/nowhere"}
        offers = RunPodOffers([ALL], told).fetch(NOON).offers
        limit, balance = runpod_quotas(offers, told).quotas
        assert [(each.pool.limit, each.used) for each in (limit, balance)] == [(80.0, 1.5), (5.0, 1.5)]
        two = {"runpod/any/1x_L40S_SECURE/spot": 1, "runpod/any/2x_L40S_SECURE/on-demand": 2}
        assert limit.pool.taken(two) == balance.pool.taken(two) == pytest.approx(0.26 + 2 * 1.58)
        sold = runpod_sold(offers, told)
        assert {each.key for each in offers if each.available_count != 0} <= sold
        assert runpod_sold([replace(offers[0], instance_type="1x_H100_SECURE")], told) == frozenset()
        account["spendLimit"] = None
        with pytest.raises(NoAnswerError, match="not what it documents"):
            runpod_quotas(offers, told)
