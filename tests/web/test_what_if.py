"""What would be if things were otherwise, and what would save money: asked for on the page, solved by the product."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page
from sqlalchemy.engine import URL

from bench.api_process import serving
from bench.console_world.market import fill_market
from bench.console_world.running import planned, put_fleet
from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import open_database
from control.db.fleets import PostgresFleets
from control.lifecycle.fleet import FleetMode
from tests.conftest import fresh_database
from tests.web.figures import Known, numbers_of, says
from tests.web.watched import Watched

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]
FLEET, MODEL = "chat", "phi-4-14b"
SOLVE_MS = 300_000
SPEC = {
    "apiVersion": "medley/v1", "kind": "Fleet", "name": FLEET,
    "models": [
        {"model": MODEL, "slo": {"ttft_ms": 1200, "tpot_ms": 60, "keep": {"throughput": True}},
         "workload": "azure-conversation",
         "demand": {"requests_per_s": 20}}
    ],
    "clouds": [
        {"cloud": "aws", "regions": ["us-east-1"], "gpus": ["L4", "L40S"], "counts": [1],
         "markets": ["on-demand", "spot"]}
    ],
    "quotas": [{"cloud": "aws", "region": "us-east-1", "family": "G-VT", "limit": 40, "market": "spot"}],
    "solver": {"n_max": 2, "gap": 0.01, "nodes": 50},
}  # fmt: skip


@dataclass(frozen=True)
class World:
    url: str
    token: str
    held: str
    """Id of the plan that the fleet is held to."""

    def api(self, path: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"}, timeout=120)
        answer.raise_for_status()
        return answer.json()


@pytest.fixture(scope="module")
def world(server_url: URL, short_tmp: Path) -> Iterator[World]:
    now = datetime.now(UTC)
    with fresh_database(server_url) as url, open_database(url) as database:
        fill_market(database, random.Random(7), now)
        put_fleet(database, SPEC, "default", FleetMode.APPROVE, now)
        plan, fleets = planned(database, FLEET, short_tmp, now), PostgresFleets(database)
        fleets.accept(fleets.target(FLEET), plan.id, "token:ada", "as looked at", now)
        token = PostgresApiTokens(database).create("ada", Role.OPERATOR, now)[1].reveal()
        with serving(url, short_tmp, workers=1) as (_, base):
            yield World(base, token, plan.id)


@pytest.fixture
def watched(browser: Browser, world: World) -> Iterator[Watched]:
    found = Watched.open(browser, world.url, world.token)
    yield found
    found.close()


def more_demand(page: Page) -> None:
    page.get_by_label("Demand: times what it is").fill("2")
    page.get_by_label("Demand: model").select_option(MODEL)


def dearer(page: Page) -> None:
    _instead(page, "Price")
    page.get_by_label("Price: GPU").select_option("L40S")
    page.get_by_label("Price: times what it is").fill("9")


def scarce(page: Page) -> None:
    _instead(page, "Availability")
    page.get_by_label("Availability: GPU").select_option("L40S")
    page.get_by_label("Availability: nodes").fill("0")


def on_demand_only(page: Page) -> None:
    _instead(page, "Without")
    page.get_by_text("Say what is gone.").wait_for()
    page.get_by_label("Without: market").select_option("spot")


def stricter(page: Page) -> None:
    _instead(page, "Objective")
    page.get_by_label("Objective", exact=True).select_option("tpot_ms")
    page.get_by_label("Objective: ms").fill("50")


def _instead(page: Page, kind: str) -> None:
    page.get_by_role("button", name=f"+ {kind}").click()
    page.get_by_role("button", name="Remove this change of demand").click()


def gpus(plan: Any) -> set[str]:
    return {config.partition(":")[0] for each in plan["instances"] for config in each["nodes"]}


@pytest.mark.parametrize(
    ("change", "came_true"),
    [
        (more_demand, lambda now, then: then["demand"][0]["requests_per_s"] == 2 * now["demand"][0]["requests_per_s"]),
        (dearer, lambda now, then: then["usd_per_hour"] > now["usd_per_hour"]),
        (scarce, lambda now, then: (gpus(now), gpus(then), then["unmet_share"]) == ({"L40S"}, set(), 1)),
        (on_demand_only, lambda _, then: {each["market"] for each in then["instances"]} == {"on-demand"}),
        (stricter, lambda now, then: then["usd_per_hour"] > now["usd_per_hour"]),
    ],
    ids=["demand", "price", "availability", "without", "objective"],
)
def test_a_change_is_solved_without_effect_and_compared(
    watched: Watched, world: World, change: Callable[[Page], None], came_true: Callable[[Any, Any], bool]
) -> None:
    page = watched.page
    watched.go(f"/what-if?fleet={FLEET}")
    change(page)
    page.get_by_role("button", name="Run what-if").click()
    page.wait_for_url("**/what-if/*", timeout=SOLVE_MS)
    page.get_by_text("It would cost").wait_for()
    watched.settle()
    then = world.api(f"/plans/{page.url.split('/what-if/')[1].partition('?')[0]}")
    now = world.api(f"/plans/{world.held}")
    assert then["draft"]
    assert came_true(now, then), (now["instances"], then["instances"], then["unmet_share"])
    shown = [(float(value), text) for value, text in watched.figures()]
    known = Known([*numbers_of(now), *numbers_of(then), *_nodes(now, then)])
    assert [(v, t) for v, t in shown if not known.has(v) or not says(t, v)] == []
    assert world.api(f"/fleets/{FLEET}")["plan"]["accepted"] == world.held
    assert world.api("/instances")["items"] == []
    again = watched.page.url
    page.goto(again)  # it can be sent to somebody
    page.get_by_text("It would cost").wait_for()


def _nodes(*plans: Any) -> Iterator[float]:
    """Nodes of each configuration that a plan rents."""
    for plan in plans:
        counts: dict[str, int] = {}
        for each in plan["instances"]:
            for config, count in each["nodes"].items():
                counts[config] = counts.get(config, 0) + count * each["count"]
        yield from counts.values()


def test_what_one_more_node_and_more_quota_would_save_is_found_and_said(watched: Watched, world: World) -> None:
    page = watched.page
    watched.go(f"/plans/{world.held}")
    card = page.get_by_role("region", name="What would save money")
    card.locator("section", has_text="One more node").get_by_text("about").first.wait_for()  # before anybody asks
    card.get_by_role("button", name="Verify").click()
    card.locator("section", has_text="One more node").get_by_text("verified").first.wait_for(timeout=SOLVE_MS)
    found = world.api(f"/plans/{world.held}/explanation")["explanation"]
    lines = card.locator("section", has_text="One more node").locator("li")
    verified = [each for each in found["one_more_node"] if each["verified"]]
    assert verified, "figures that are shown come from solving again"
    said = lines.filter(has_text="verified").all()
    assert len(said) == len(verified)
    for line, node in zip(said, verified, strict=True):
        assert node["name"] in line.inner_text()
        if node["usd_per_hour"] > 1e-6:
            assert float(line.locator("data").first.get_attribute("value") or "nan") == node["usd_per_hour"]
    quotas = [limit for limit in found["limits"] if limit["kind"] == "quota"]
    assert quotas, "the quota of 40 vCPUs binds"
    card.locator("section", has_text="Quotas to raise").get_by_text(quotas[0]["text"]).wait_for()


def test_what_the_fleet_costs_against_an_objective_is_found_and_drawn(watched: Watched, world: World) -> None:
    page = watched.page
    watched.go(f"/plans/{world.held}?objective=tpot")
    card = page.get_by_role("region", name="Cost against objective")
    card.get_by_role("button", name="Find costs").click()
    card.locator("canvas").wait_for(timeout=SOLVE_MS)
    (curve,) = world.api(f"/plans/{world.held}/objectives?axis=tpot")["curves"]
    assert (curve["model"], curve["now"], len(curve["points"])) == (MODEL, 60, 7)
    rows = card.locator("tbody tr").all()
    assert len(rows) == len(curve["points"])
    for row, point in zip(rows, curve["points"], strict=True):
        figures = [float(each.get_attribute("value") or "nan") for each in row.locator("data").all()]
        assert figures[:1] == ([] if point["usd_per_hour"] is None else [point["usd_per_hour"]])
    costs = [point["usd_per_hour"] for point in curve["points"] if point["usd_per_hour"] is not None]
    assert costs == sorted(costs, reverse=True)
    assert world.api("/instances")["items"] == []
