"""What a plan's fleet costs against its objectives, as the page shows it."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import insert

from bench.console_world.specs import ASSISTANTS
from control.access.role import Role
from control.db.api_tables import operation
from tests.web.conftest import Console
from tests.web.watched import Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]
MODEL = "qwen3-32b"
WHY = "qwen3-32b: no configuration meets its objective for prefill; the nearest is 2 x L40S:1"


def put_curve(console: Console, axis: str, unit: str, now: float, points: list[tuple[float, float | None]]) -> None:
    """As a worker stores it."""
    found = [
        {"value": value, "usd_per_hour": usd, "unmet_share": 0.0, "is_kept": usd is not None,
         "problem": "" if usd is not None else WHY}
        for value, usd in points
    ]  # fmt: skip
    plan, at = console.world.proposed, datetime.now(UTC)
    curve = {"model": MODEL, "axis": axis, "unit": unit, "now": now, "points": found}
    row: dict[str, Any] = {
        "id": f"op{secrets.token_hex(8)}", "kind": "objectives", "state": "succeeded", "progress": "",
        "request": {"plan": plan, "model": MODEL, "axis": axis, "values": []},
        "result": {"plan_id": plan, "curve": curve}, "fleet": ASSISTANTS, "created_by": "ada", "trace": "",
        "attempts": 1, "created_at": at, "started_at": at, "finished_at": at,
    }  # fmt: skip
    console.database.write(insert(operation).values(row))


def test_a_curve_is_drawn_and_said_with_its_gaps_in_words(look: Look, console: Console) -> None:
    points = [(2000.0, None), (3200.0, 41.5), (4000.0, 33.25), (8000.0, 31.0)]
    put_curve(console, "ttft", "ms", 4000.0, points)
    watched = look(f"/plans/{console.world.proposed}?model={MODEL}&objective=ttft")
    page = watched.page
    card = page.get_by_role("region", name="Cost against objective")
    drawn = card.get_by_role("img")
    drawn.locator("canvas").wait_for()
    assert MODEL in (drawn.get_attribute("aria-label") or "")
    rows = card.locator("tbody tr").all()
    shown = [[float(each.get_attribute("value") or "nan") for each in row.locator("data").all()] for row in rows]
    assert shown == [[], [41.5, 8.25], [33.25], [31.0, -2.25]]
    assert [row.get_attribute("aria-current") for row in rows] == [None, None, "true", None]
    assert "no template keeps it" in rows[0].inner_text()
    assert card.get_by_text(WHY).is_visible()
    assert watched.untrue() == []
    drawn.hover()  # in the middle, where a value is near
    drawn.locator(".readout").get_by_text("/h").wait_for()
    assert watched.serious() == []
    card.get_by_label("Objective", exact=True).select_option("percentile")
    card.get_by_text("Nobody has asked yet").wait_for()
    assert "objective=percentile" in page.url
    assert card.locator("table").count() == 0


def test_a_curve_of_percentiles_has_the_easiest_last_on_a_telephone(look: Look, console: Console) -> None:
    usd = dict(zip((99.9, 99.5, 99.0, 95.0, 90.0, 80.0, 50.0), (None, 40.0, 33.0, 31.0, 30.5, 30.5, 29.0), strict=True))
    put_curve(console, "percentile", "%", 99.0, list(usd.items()))
    narrow = {"width": 390, "height": 844}
    watched = look(f"/plans/{console.world.proposed}?model={MODEL}&objective=percentile", viewport=narrow)
    card = watched.page.get_by_role("region", name="Cost against objective")
    card.locator("canvas").wait_for()
    first = [row.locator("td").first.inner_text().split()[0] for row in card.locator("tbody tr").all()]
    assert [float(each) for each in first] == list(usd)
    assert watched.page.evaluate("document.documentElement.scrollWidth") == 390


def test_curves_that_cannot_be_read_say_so_and_are_read_again(look: Look, console: Console) -> None:
    watched = look("/events", Role.VIEWER)
    page = watched.page
    page.route("**/objectives", lambda route: route.fulfill(status=500, json={"title": "Internal", "detail": "oh"}))
    page.goto(f"{console.url}/plans/{console.world.proposed}")
    card = page.get_by_role("region", name="Cost against objective")
    card.get_by_role("alert").get_by_text("oh").wait_for()
    page.unroute("**/objectives")
    card.get_by_role("button", name="Try again").click()
    card.get_by_role("alert").wait_for(state="detached")
    assert card.get_by_role("button", name="Find costs").get_attribute("aria-disabled") == "true"  # a viewer's
    assert all("500" in each for each in watched.complaints)
    watched.complaints.clear()
