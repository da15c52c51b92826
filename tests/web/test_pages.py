"""Every page, as it is when somebody opens it: its numbers, who can use it, how narrow it may be."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator

from bench.console_world.specs import ASSISTANTS, PICTURES, PROMISING
from control.access.role import Role
from tests.web.conftest import Console
from tests.web.watched import Watched

pytestmark = pytest.mark.needs("chromium")
PATHS = (
    "/", "/performance", "/fleet", "/apps", "/playground", "/specs", "/plans", "/what-if", "/market", "/templates",
    "/cost", "/events", "/webhooks", "/tokens",
)  # fmt: skip
Look = Callable[..., Watched]


def test_the_navigation_leads_to_every_page(look: Look) -> None:
    page = look("/").page
    links = page.locator("nav a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
    assert set(links) >= set(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_every_number_is_the_apis(look: Look, path: str) -> None:
    watched = look(path)
    assert watched.untrue() == []
    assert watched.figures() or path in ("/events", "/what-if", "/playground")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_every_page(look: Look, scheme: str) -> None:
    watched = look("/", color_scheme=scheme)
    found = {}
    for path in PATHS:
        watched.go(path)
        found[path] = watched.serious()
    assert {path: serious for path, serious in found.items() if serious} == {}


def test_every_page_fits_a_telephone(look: Look) -> None:
    watched = look("/", viewport={"width": 390, "height": 844})
    wide = {}
    for path in PATHS:
        watched.go(path)
        if (width := watched.page.evaluate("document.documentElement.scrollWidth")) > 390:
            wide[path] = width
    assert wide == {}


def test_promises_stand_beside_what_was_kept(look: Look, console: Console) -> None:
    rows = look("/").page.get_by_role("region", name="Promises").locator("tbody tr").all()
    models = console.api(f"/fleets/{ASSISTANTS}/slo")["models"]
    promises = {each["work_class"]: each for model in models for each in model["promises"]}
    assert [row.locator("td").first.inner_text().split("\n")[0] for row in rows] == list(promises)
    for row, promise in zip(rows, promises.values(), strict=True):
        (kept,) = promise["kept"]
        shown = [float(each.get_attribute("value") or "nan") for each in row.locator("data").all()]
        factor = [] if promise["correction"] is None else [promise["correction"]["factor"]]
        assert shown == [promise["share"], kept["share"], kept["low"], kept["high"], kept["answers"], *factor]
    corrected = promises[f"{PROMISING}/prefill"]
    assert look("/").page.get_by_text(corrected["correction"]["reason"]).is_visible()


def test_the_ledger_is_the_apis(look: Look, console: Console) -> None:
    watched = look("/cost?by=project")
    rows = watched.page.get_by_role("region", name="Ledger").locator("tbody tr").all()
    lines = next(d["lines"] for d in watched.documents() if isinstance(d, dict) and d.get("by") == "project")
    shown = [(row.locator("td").first.inner_text(), row.locator("data").first.get_attribute("value")) for row in rows]
    assert [(name, float(usd or "nan")) for name, usd in shown] == [(line["name"], line["usd"]) for line in lines]
    assert {line["name"] for line in lines} == {line["name"] for line in console.api("/cost?by=project")["lines"]}


def test_what_keys_cost_and_what_is_idle_add_up_to_the_rent(look: Look) -> None:
    watched = look("/cost?span=24h")
    table = watched.page.get_by_role("region", name="By API key")
    rows = [(row.locator("td div").first.inner_text(), usd_of(row)) for row in table.locator("tbody tr").all()]
    report = next(d for d in watched.documents() if isinstance(d, dict) and "idle_usd" in d)
    names = [each["name"] or "(not told by key)" for each in report["items"]]
    assert rows == list(zip(names, (each["usd"] for each in report["items"]), strict=True))
    assert {"chat front end", "partner"} <= set(names)
    idle, rent = (usd_of(row) for row in table.locator("tfoot tr").all())
    assert sum(round(100 * usd) for usd in (*(usd for _, usd in rows), idle)) == round(100 * rent)
    assert min(idle, rent - idle) > 0


def usd_of(row: Locator) -> float:
    return float(row.locator("data").first.get_attribute("value") or "nan")


def test_a_cell_of_the_market_leads_to_its_offers_and_their_past(look: Look, console: Console) -> None:
    watched = look("/market?market=spot&cloud=aws&gpu=L40S")
    cell = watched.page.locator(".cell").first
    price = float(cell.locator("data").get_attribute("value") or "nan")
    cells = console.api("/markets/cells?market=spot&cloud=aws&gpu=L40S")["items"]
    assert price == pytest.approx(cells[0]["usd_per_gpu_hour"])
    cell.click()
    watched.page.get_by_role("region", name="Offers").wait_for()
    watched.settle()
    watched.page.locator("figure.chart canvas").wait_for()
    assert "at=aws%2F" in watched.page.url


def test_a_template_is_opened_from_the_front_and_by_its_address(look: Look, console: Console) -> None:
    watched = look("/templates")
    watched.page.get_by_role("region", name="Pareto front").get_by_role("button").first.click()
    drawer = watched.page.get_by_role("dialog")
    drawer.get_by_text("Layers 0").first.wait_for()
    template = watched.page.url.split("/templates/")[1].split("?")[0]
    found = console.api(f"/templates/{template}")
    assert drawer.get_by_text(found["model"]).first.is_visible()
    again = look(watched.page.url.removeprefix(console.url))
    again.page.get_by_role("dialog").get_by_text("Layers 0").first.wait_for()
    again.page.keyboard.press("Escape")
    again.page.get_by_role("dialog").wait_for(state="detached")


def test_an_app_is_drawn_with_what_its_components_carry_and_cost(look: Look, console: Console) -> None:
    page = look(f"/apps/{PICTURES}/vl").page
    planned = console.api(f"/fleets/{PICTURES}/apps/vl")["planned"]
    drawn = page.get_by_role("region", name="Graph").locator("svg")
    assert drawn.locator("text.name").all_text_contents() == [each["component"] for each in planned["components"]]
    rows = page.get_by_role("region", name="Components").locator("tbody tr").all()
    for row, each in zip(rows, planned["components"], strict=True):
        shown = [float(value.get_attribute("value") or "nan") for value in row.locator("data").all()][1:]
        told = ("requests_per_s", "load", "executors", "usd_per_hour", "shared_usd_per_hour")
        assert shown == pytest.approx([each[name] for name in told])
    assert planned["usd_per_hour"] > 0


def test_events_are_found_by_their_subject(look: Look, console: Console) -> None:
    subject = console.api("/events?kind=instance.ready&limit=1")["items"][0]["subject"]
    watched = look(f"/events?subject={subject}")
    of_it = console.api(f"/events?subject={subject}&limit=100")["items"]
    rows = watched.page.get_by_role("region", name="Events").locator("tbody tr")
    assert rows.count() == len(of_it)
    assert all(of_it[0]["text"] in row.inner_text() or subject in row.inner_text() for row in rows.all())


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_what_a_role_may_not_do_says_so(look: Look, role: Role) -> None:
    page = look("/tokens", role).page
    button = page.get_by_role("button", name="New token")
    assert button.get_attribute("aria-disabled") == "true"
    button.click(force=True)
    assert page.get_by_role("dialog").count() == 0
    button.hover()
    page.get_by_role("tooltip").filter(has_text="takes the role admin").wait_for()
    page.get_by_text("Tokens are for admins to see").wait_for()
