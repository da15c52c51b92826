"""What people do on the console, and what becomes of it in the fleet."""

from collections.abc import Callable

import httpx
import pytest

from control.access.role import Role
from tests.web.conftest import Console
from tests.web.watched import Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]
LONG = "x" * 300


def test_somebody_signs_in_and_is_where_they_wanted_to_be(browser, console: Console) -> None:  # type: ignore[no-untyped-def]
    watched = Watched.open(browser, console.url)
    page = watched.page
    page.goto(f"{console.url}/cost?by=cloud")
    page.get_by_label("token", exact=False).first.fill("medley_wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()
    page.get_by_label("token", exact=False).first.fill(console.world.tokens[Role.VIEWER])
    page.get_by_role("button", name="Sign in").click()
    watched.settle()
    assert page.url.endswith("/cost?by=cloud")
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert console.world.tokens[Role.VIEWER] not in kept
    expected = [c for c in watched.complaints if "401" in c]
    assert watched.complaints == expected
    watched.complaints.clear()
    watched.close()


def test_a_session_that_ends_leads_back_to_the_page(look: Look, console: Console) -> None:
    watched = look("/events?kind=plan.made", Role.OPERATOR)
    watched.context.clear_cookies()
    watched.page.get_by_role("link", name="Cost").click()
    watched.page.get_by_role("button", name="Sign in").wait_for()
    watched.page.get_by_label("token", exact=False).first.fill(console.world.tokens[Role.OPERATOR])
    watched.page.get_by_role("button", name="Sign in").click()
    watched.page.get_by_role("heading", name="Cost", level=1).wait_for()
    assert all("401" in c for c in watched.complaints)
    watched.complaints.clear()


def test_a_token_is_made_shown_once_and_revoked(look: Look, console: Console) -> None:
    watched = look("/tokens")
    page = watched.page
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name", exact=False).fill(LONG)
    page.get_by_role("button", name="Make the token").click()
    secret = page.get_by_label("The token", exact=True).inner_text()
    headers = {"Authorization": f"Bearer {secret}"}
    who = httpx.get(f"{console.url}/api/v1/session", headers=headers, timeout=60)
    assert (who.status_code, who.json()["name"], who.json()["role"]) == (200, LONG, "viewer")
    page.get_by_role("button", name="I have it").click()
    row = page.get_by_role("region", name="Tokens").locator("tr", has_text=LONG)
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    row.get_by_text("revoked").wait_for()
    assert httpx.get(f"{console.url}/api/v1/session", headers=headers, timeout=60).status_code == 401
    assert secret not in page.content()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_token_whose_name_is_too_long_is_refused_in_words(look: Look) -> None:
    watched = look("/tokens")
    watched.page.get_by_role("button", name="New token").click()
    watched.page.get_by_label("Name", exact=False).fill(f"{LONG}x")
    watched.page.get_by_text("Up to 300 characters").wait_for()
    watched.page.get_by_role("button", name="Make the token").click()
    watched.page.get_by_role("alert").get_by_text("300").first.wait_for()
    assert all("422" in c for c in watched.complaints)
    watched.complaints.clear()


def test_a_quarantined_price_is_vouched_for(look: Look, console: Console) -> None:
    def doubted() -> list[str]:
        return [q["offer"] for m in console.api("/markets")["items"] for q in m["quarantined"]]

    watched = look("/market", Role.OPERATOR)
    row = watched.page.get_by_role("region", name="Quarantined prices").locator("tbody tr").last
    offer = row.locator("td").first.inner_text()
    assert offer in doubted()
    row.get_by_role("button", name="Accept").click()
    watched.page.get_by_role("dialog").get_by_role("button", name="Accept the price").click()
    watched.page.get_by_role("dialog").wait_for(state="detached")  # what is behind it has no role until then
    watched.page.get_by_role("region", name="Quarantined prices").get_by_text(offer).wait_for(state="detached")
    assert offer not in doubted()


def test_a_budget_is_changed(look: Look, console: Console) -> None:
    watched = look("/cost")
    watched.page.get_by_role("button", name="Change the budget of fleet search-agents").click()
    watched.page.get_by_label("Dollars an hour", exact=True).fill("55")
    watched.page.get_by_role("button", name="Save").click()
    watched.page.get_by_role("dialog").wait_for(state="detached")
    assert console.api("/budgets/fleet/search-agents")["usd_per_hour_limit"] == 55
    watched.page.get_by_role("region", name="Budgets").get_by_text("$55.00").wait_for()


def test_an_instance_is_drained_and_the_fleet_shows_it(look: Look, console: Console) -> None:
    ready = next(i["id"] for i in console.api("/instances?limit=200")["items"] if i["state"] == "ready")
    watched = look(f"/fleet/{ready}", Role.OPERATOR)
    drawer = watched.page.get_by_role("dialog")
    drawer.get_by_role("button", name="Drain").click()
    asked = watched.page.get_by_role("dialog", name=f"Drain {ready}?")
    asked.get_by_role("textbox").fill("its kernel is old")
    asked.get_by_role("button", name="Drain it").click()
    drawer.get_by_text("draining").first.wait_for()
    assert console.api(f"/instances/{ready}")["state"] == "draining"
    assert any("its kernel is old" in step["reason"] for step in console.api(f"/instances/{ready}/history")["items"])
    other = look("/fleet?state=draining", Role.VIEWER)
    other.page.locator("#main .badge", has_text="draining").first.wait_for()


def test_a_plan_is_approved_and_the_fleet_is_held_to_it(look: Look, console: Console) -> None:
    waiting = console.world.proposed
    mine = look(f"/plans/{waiting}", Role.VIEWER)
    assert mine.page.get_by_role("button", name="Approve").get_attribute("aria-disabled") == "true"
    watched = look(f"/plans/{waiting}", Role.OPERATOR)
    diff = next(d for d in watched.documents() if isinstance(d, dict) and "mark" in d)
    watched.page.get_by_role("button", name="Approve").click()
    asked = watched.page.get_by_role("dialog")
    asked.get_by_text(f"{diff['launched']} instances are launched").wait_for()
    asked.get_by_role("textbox").fill("cheap enough")
    asked.get_by_role("button", name="Approve").click()
    watched.page.get_by_text("held to since").first.wait_for()
    assert console.api("/fleets/assistants")["plan"]["accepted"] == waiting
    (event,) = console.api(f"/events?kind=plan.accepted&subject={waiting}&limit=1")["items"]
    assert "cheap enough" in event["text"]
    mine.page.get_by_text("held to since").first.wait_for()  # told by the live feed
