"""Budgets, cost, offers and demand over HTTP: the same numbers as on record."""

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import QuarantinedOffer
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import OFFER, spec


def test_a_budget_is_made_replaced_and_removed(admin: Api, operator: Api) -> None:
    limits = {"usd_per_hour_limit": 10.0}
    assert admin("PUT", "/budgets/project/none", limits, If_None_Match="*").status_code == 404
    assert operator("PUT", "/budgets/project/default", limits, If_None_Match="*").status_code == 403
    made = admin("PUT", "/budgets/project/default", limits, If_None_Match="*")
    assert (made.status_code, made.json()["usd_per_hour_limit"], made.json()["month_usd"]) == (201, 10.0, 0.0)
    assert admin("PUT", "/budgets/project/default", limits, If_None_Match="*").status_code == 412
    assert admin("PUT", "/budgets/project/default", limits).status_code == 428
    changed = admin("PUT", "/budgets/project/default", {"usd_per_month": 99.0}, If_Match=made.headers["etag"])
    assert (changed.status_code, changed.json()["usd_per_month_limit"]) == (200, 99.0)
    assert admin.get("/budgets").json()["items"] == [changed.json()]
    events = admin.get("/events?kind=budget.changed").json()["items"]
    assert [event["detail"] for event in events] == [{"usd_per_month": 99.0}, {"usd_per_hour": 10.0}]
    assert admin("DELETE", "/budgets/project/default", If_Match=made.headers["etag"]).status_code == 412
    assert admin("DELETE", "/budgets/project/default", If_Match=changed.headers["etag"]).status_code == 204
    assert admin.get("/budgets/project/default").status_code == 404


def test_the_names_of_the_release_before_are_taken_and_not_both(admin: Api) -> None:
    path = "/budgets/project/default"
    old = admin("PUT", path, {"usd_per_hour": 1.0, "usd_per_month": 2.0}, If_None_Match="*").json()
    assert (old["usd_per_hour_limit"], old["usd_per_month_limit"]) == (1.0, 2.0)
    both = {"usd_per_hour": 1.0, "usd_per_hour_limit": 1.0}
    assert admin("PUT", path, both, If_Match='"1"').status_code == 422
    same = {name: old[name] for name in ("usd_per_hour_limit", "usd_per_month_limit", "floor_usd_per_hour")}
    assert admin("PUT", path, same, If_Match='"1"').json() == old | {"version": 2}


@pytest.mark.parametrize("limits", [{}, {"usd_per_hour_limit": 0}, {"usd_per_hour_limit": 1, "floor_usd_per_hour": 2}])
def test_a_budget_that_limits_nothing_is_refused(admin: Api, limits: dict[str, Any]) -> None:
    assert admin("PUT", "/budgets/project/default", limits, If_None_Match="*").status_code == 422


def test_cost_is_reckoned_over_a_span(viewer: Api) -> None:
    report = viewer.get("/cost?by=model").json()
    assert (report["usd"], report["lines"], report["leaked_usd"]) == (0, [], 0)
    series = viewer.get("/cost/series?points=7").json()["items"]
    assert len(series) == 7
    assert all(one["until"] == other["since"] for one, other in itertools.pairwise(series))
    assert viewer.get("/cost?since=2030-01-01T00:00:00Z").status_code == 422
    assert viewer.get("/cost?since=2026-01-01").status_code == 422


def test_offers_are_listed_with_what_they_cost_before(operator: Api, database: Database) -> None:
    first, then = now() - timedelta(hours=2), now() - timedelta(hours=1)
    offers = PostgresOffers(database)
    dear = replace(OFFER, usd_per_hour=80.0, instance_type="g6.2xlarge")
    aside = (QuarantinedOffer(dear, "100 times what it was"),)
    configs = {OFFER.node_config: node_config_from_id(OFFER.node_config)}
    for price, at in ((0.9, first), (0.8, then)):
        sold = replace(OFFER, usd_per_hour=price, observed_at=at.isoformat())
        market = CloudMarket("aws", "a test", at, at, offers=(sold,), configs=configs, quarantined=aside)
        offers.answered(market, partly=False)
    (found,) = operator.get("/offers?cloud=aws").json()["items"]
    assert (found["key"], found["usd_per_hour"], found["gpu"], found["learned"]) == (OFFER.key, 0.8, "L4", None)
    history = operator.get(f"/offers/history?offer={OFFER.key}").json()["items"]
    assert [point["usd_per_hour"] for point in history] == [0.9, 0.8]
    (aws,) = operator.get("/markets").json()["items"]
    assert (aws["offers"], aws["quarantined"][0]["offer"]) == (1, dear.key)
    assert operator.post("/offers:accept", {"offer": dear.key}).status_code == 204
    assert operator.post("/offers:accept", {"offer": dear.key}).status_code == 404
    assert [o["usd_per_hour"] for o in operator.get("/offers?cloud=aws&gpu=L4").json()["items"]] == [80.0, 0.8]
    assert operator.get("/offers?cloud=aws&gpu=H100").json()["items"] == []
    assert operator.get("/offers?region=nowhere").json()["items"] == []


def test_the_market_in_short_is_the_cheapest_of_its_offers(viewer: Api) -> None:
    offers, cursor = [], ""
    while True:
        some = viewer.get(f"/offers?limit=200&cloud=gcp&gpu=L4&market=spot{cursor}").json()
        offers += some["items"]
        if some["next"] is None:
            break
        cursor = f"&cursor={some['next']}"
    cells = viewer.get("/markets/cells?cloud=gcp&gpu=L4&market=spot").json()["items"]
    assert sum(cell["offers"] for cell in cells) == len(offers) > len(cells) > 1
    for cell in cells:
        own = [o for o in offers if (o["region"], o["node_config"]) == (cell["region"], cell["node_config"])]
        assert cell["usd_per_hour"] == min(offer["usd_per_hour"] for offer in own)
        assert (cell["available_count"], cell["success_share"]) == (None, None)


def test_offers_that_ship_are_paged(viewer: Api) -> None:
    whole = []
    cursor = ""
    for _ in range(3):
        some = viewer.get(f"/offers?limit=50&gpu=H100{cursor}").json()
        whole += [offer["key"] for offer in some["items"]]
        cursor = f"&cursor={some['next']}"
    assert len(whole) == 150
    assert whole == sorted(set(whole))


def test_clouds_to_ask_are_known_ones(operator: Api) -> None:
    refused = operator.post("/offers:refresh", {"clouds": ["awss"]})
    assert (refused.status_code, "'aws'" in refused.json()["detail"]) == (422, True)
    assert operator.post("/offers:refresh", {"clouds": ["aws"]}).json()["kind"] == "refresh-offers"


def test_demand_is_overridden_for_a_time(operator: Api, viewer: Api) -> None:
    operator.post("/fleets", {"spec": spec()})
    path = "/fleets/chat/demand"
    soon = (now() + timedelta(hours=1)).isoformat()
    new = {"requests_per_s": 3, "expires_at": soon, "reason": "a launch"}
    assert operator("PUT", f"{path}/smollm2/override", new).status_code == 404
    late = new | {"expires_at": (now() - timedelta(hours=1)).isoformat()}
    assert operator("PUT", f"{path}/smollm2-135m-instruct/override", late).status_code == 422
    assert operator("PUT", f"{path}/smollm2-135m-instruct/override", new).status_code == 200
    found = viewer.get(path).json()
    assert (found["offered"], found["waiting"]) == ({}, {})
    assert [(o["requests_per_s"], o["reason"]) for o in found["overrides"]] == [(3, "a launch")]
    assert operator("DELETE", f"{path}/smollm2-135m-instruct/override").status_code == 204
    assert operator("DELETE", f"{path}/smollm2-135m-instruct/override").status_code == 404
    assert viewer.get(f"{path}?hours=169").status_code == 422
