"""Every state of a page has an address: it can be sent to somebody, who sees the same after signing in."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page

from control.access.role import Role
from tests.web.conftest import Console
from tests.web.watched import Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]


def chosen(page: Page, label: str) -> str:
    """What a list or a group of buttons has chosen."""
    return str(
        page.locator(
            f"[aria-label='{label}'] [data-state=on], select[aria-label='{label}'] option:checked"
        ).inner_text()
    )


def said(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


def slowly(page: Page) -> None:
    """From here on as on a machine that takes ten times as long to draw."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 10})


@pytest.fixture
def stranger(browser: Browser, console: Console) -> Iterator[Callable[[str], Watched]]:
    """Somebody who is sent an address, and has to sign in first."""
    opened: list[Watched] = []

    def visits(address: str) -> Watched:
        watched = Watched.open(browser, console.url)
        opened.append(watched)
        watched.page.goto(console.url + address)
        watched.page.get_by_label("token", exact=False).first.fill(console.world.tokens[Role.OPERATOR])
        watched.page.get_by_role("button", name="Sign in").click()
        watched.settle()
        return watched

    yield visits
    for each in opened:
        each.close()


def test_what_is_chosen_on_a_page_is_in_its_address(
    look: Look, stranger: Callable[[str], Watched], console: Console
) -> None:
    instance = console.api("/instances?limit=200")["items"][0]
    watched = look("/fleet", Role.OPERATOR)
    page = watched.page
    page.get_by_label("model", exact=True).select_option(instance["model"])
    page.get_by_label("Find an instance").fill(instance["id"])
    page.locator(f"a[href*='{instance['id']}']").click()
    page.get_by_role("tab", name="History").click()
    page.get_by_role("dialog").locator(".steps li").first.wait_for()
    assert said(page.url) == {"model": [instance["model"]], "q": [instance["id"]], "tab": ["history"]}
    found = stranger(page.url.removeprefix(console.url)).page
    found.get_by_role("dialog").locator(".steps li").first.wait_for()
    assert found.url == page.url
    found.keyboard.press("Escape")
    found.get_by_role("dialog").wait_for(state="detached")
    assert found.get_by_label("model", exact=True).input_value() == instance["model"]
    assert found.locator(".instance").count() == 1


def test_nothing_is_lost_of_what_is_typed_fast(look: Look, console: Console) -> None:
    instance = console.api("/instances?limit=200")["items"][0]
    page = look("/fleet", Role.OPERATOR).page
    slowly(page)
    page.get_by_label("model", exact=True).select_option(instance["model"])
    find = page.get_by_label("Find an instance")
    find.press_sequentially("L40Snode")
    find.press("Home")
    find.press_sequentially("two ")
    assert find.input_value() == "two L40Snode"
    page.wait_for_url(lambda url: said(url) == {"model": [instance["model"]], "q": ["two L40Snode"]})


def test_nothing_is_lost_of_a_change_that_is_typed_fast(look: Look) -> None:
    page = look("/what-if?change=price;1", Role.OPERATOR).page
    slowly(page)
    times = page.get_by_label("Price: times what it is")
    times.press("End")
    times.press_sequentially(".25")
    page.get_by_role("button", name="+ Price").click()
    assert times.first.input_value() == "1.25"
    page.wait_for_url(
        lambda url: [change.split(";")[:2] for change in said(url)["change"]] == [["price", "1.25"], ["price", "1.2"]]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("/?days=7", lambda page: chosen(page, "Span") == "7 days"),
        ("/market?market=spot&show=availability&cloud=gcp", lambda page: chosen(page, "Shown") == "Availability"),
        ("/cost?by=cloud&span=7d", lambda page: (chosen(page, "By"), chosen(page, "Span")) == ("Cloud", "7 days")),
        ("/events?kind=plan.accepted", lambda page: {*page.locator("td .link").all_inner_texts()} == {"plan.accepted"}),
        (
            "/what-if?fleet=search-agents&change=price%3B1.3%3B%3Btpot_ms%3Baws%3B%3BL40S&change=slo%3B90%3B%3Bttft_ms",
            lambda page: (
                chosen(page, "Fleet"), chosen(page, "Price: GPU"),
                page.get_by_label("Price: times what it is").input_value(), chosen(page, "Objective"),
            ) == ("search-agents", "L40S", "1.3", "TTFT"),
        ),
    ],
    ids=["overview", "market", "cost", "events", "what-if"],
)  # fmt: skip
def test_an_address_shows_the_same_to_whoever_signs_in_there(
    stranger: Callable[[str], Watched], console: Console, address: str, seen: Callable[[Page], bool]
) -> None:
    page = stranger(address).page
    assert page.url == console.url + address
    assert seen(page)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_times_are_of_the_viewers_zone(look: Look, zone: str) -> None:
    page = look("/events", timezone_id=zone, locale="en-GB").page
    first = page.locator("tbody time").first
    moment = datetime.fromisoformat(first.get_attribute("datetime") or "").astimezone(ZoneInfo(zone))
    assert first.inner_text().endswith(f"{moment:%H:%M}")
    assert f"{moment:%H:%M:%S}" in (first.get_attribute("title") or "")


@pytest.mark.slow
def test_while_the_api_is_away_the_last_data_stays_and_says_how_old_it_is(look: Look) -> None:
    watched = look("/cost")
    page = watched.page
    spent: list[Any] = watched.figures()
    watched.context.set_offline(True)
    page.get_by_role("link", name="Events").click()
    banner = page.get_by_role("alert").filter(has_text="The API does not answer")
    banner.wait_for()
    page.get_by_role("link", name="Cost").click()
    page.get_by_role("heading", name="Cost", level=1).wait_for()
    assert watched.figures() == spent
    shown = datetime.fromisoformat(banner.locator("time").get_attribute("datetime") or "")
    banner.get_by_text("s ago").wait_for()  # it counts
    assert shown <= datetime.now(shown.tzinfo)
    watched.context.set_offline(False)
    banner.wait_for(state="detached")
    assert all("net::ERR" in each for each in watched.complaints)
    watched.complaints.clear()
