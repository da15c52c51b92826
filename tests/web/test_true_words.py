"""What cards say is of the span that they name, of this fleet, and readable; what is not there is said once."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from bench.console_world.specs import AGENTS
from control.db.plans import PostgresPlans
from tests.web.conftest import Console
from tests.web.watched import PATIENCE_MS, Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]
TEXTS = """
window.drawn = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const width = this.measureText(text).width;
  const left = x - {center: width / 2, right: width, end: width}[this.textAlign] || x;
  window.drawn.push([text, left, left + width, Math.round(y)]);
  return fillText.apply(this, arguments);
};
"""


def test_objectives_of_the_last_hour_are_those_of_the_hour(look: Look, console: Console) -> None:
    models = [
        each
        for fleet in console.api("/fleets?limit=50")["items"]
        for each in console.api(f"/fleets/{fleet['name']}/slo?points=1")["models"]
    ]
    rows = look("/").page.get_by_role("region", name="Objectives").locator("tbody tr").all()
    assert len(rows) == 2 * len(models)
    for model, (ttft, tpot) in zip(models, zip(rows[::2], rows[1::2], strict=True), strict=True):
        assert model["model"] in ttft.inner_text()
        for row, which in ((ttft, "ttft"), (tpot, "tpot")):
            within = model["items"][0][which]["within"]
            shown = [float(each.get_attribute("value") or "nan") for each in row.locator("td:nth-child(6) data").all()]
            expected = [] if within is None else [within]
            assert shown == pytest.approx(expected, abs=0.003)  # a minute may have come since


@pytest.mark.parametrize("path", ["/plans/", "/what-if/"])
def test_a_plan_that_is_not_there_is_asked_for_once(look: Look, path: str) -> None:
    watched = look("/")
    watched.page.goto(f"{watched.url}{path}{'0' * 32}")
    watched.page.get_by_role("alert").filter(has_text="is not stored").wait_for()
    watched.page.get_by_role("link", name="Market").click()
    watched.settle()
    refused = [each for each in watched.complaints if "404" in each]
    assert len(refused) == 1
    watched.complaints.clear()


def test_the_beginning_of_an_id_opens_a_plan(look: Look, console: Console) -> None:
    plan = console.world.proposed
    for page in ("plans", "what-if"):
        watched = look(f"/{page}/{plan[:12]}")
        watched.page.wait_for_url(f"**/{page}/{plan}*")
        watched.page.get_by_text(plan[:12]).first.wait_for()


def test_a_plan_of_a_file_is_shown_though_no_fleet_can_be_held_to_it(look: Look, console: Console) -> None:
    plans = PostgresPlans(console.database)
    held = plans.load(console.world.proposed)
    plans.save("a-file", replace(held, id="f" * 32), plans.snapshot(held.snapshot_version))
    page = look(f"/plans/{'f' * 32}").page
    page.get_by_text("No fleet here is called a-file").wait_for()
    assert page.get_by_role("button", name="Approve").count() == 0
    assert page.get_by_role("region", name="Planned instances").locator("tbody tr").count() > 0


def test_the_burn_rate_is_the_one_of_now_whatever_the_span(look: Look, console: Console) -> None:
    now = console.api("/cost?by=model")["usd_per_hour"]
    for days in (1, 30):
        shown = look(f"/?days={days}").page.get_by_role("region", name="Burn rate").locator(".figure data")
        assert float(shown.get_attribute("value") or "nan") == pytest.approx(now, rel=1e-6)


def test_labels_of_an_axis_do_not_overlap(look: Look) -> None:
    watched = look("/")
    watched.page.add_init_script(TEXTS)
    watched.go("/cost?span=24h")
    watched.page.locator("figure.chart canvas").first.wait_for()
    watched.page.wait_for_function("window.drawn.length > 4")
    drawn = watched.page.evaluate("window.drawn")
    rows: dict[int, list[tuple[float, float]]] = {}
    for _, left, right, y in {tuple(each) for each in drawn}:
        rows.setdefault(y, []).append((left, right))
    clock = max(rows.values(), key=len)
    assert len(clock) > 3
    assert all(right < left for (_, right), (left, _) in pairwise(sorted(clock)))


def test_templates_are_those_of_the_fleets_plan_and_not_of_the_newest_library(look: Look, console: Console) -> None:
    accepted = next(
        each["plan"]["accepted"] for each in console.api("/fleets?limit=50")["items"] if each["plan"]["accepted"]
    )
    page = look("/templates").page
    assert page.get_by_label("Library").input_value() == console.api(f"/plans/{accepted}")["library_version"]


def test_offers_of_a_cell_come_into_view(look: Look) -> None:
    watched = look("/market?cloud=every", viewport={"width": 1280, "height": 500})
    watched.page.locator(".cell").first.click()
    expect(watched.page.get_by_role("region", name="Offers")).to_be_in_viewport(timeout=PATIENCE_MS)


def test_the_cheapest_of_a_gpu_has_the_strongest_colour(look: Look) -> None:
    page = look("/market?cloud=every").page
    cells = page.locator(".cell:not(.none)").evaluate_all(
        "all => all.map(each => [each.getAttribute('aria-label').split(' in ')[0].replace(/^[0-9]+×/, ''),"
        " Number(each.querySelector('data').value), Number(each.className.match(/heat-([0-9])/)[1])])"
    )
    by_gpu: dict[str, list[tuple[float, int]]] = {}
    for gpu, usd, shade in cells:
        by_gpu.setdefault(gpu, []).append((usd, shade))
    several = [each for each in by_gpu.values() if len({usd for usd, _ in each}) > 1]
    assert several
    for each in several:
        assert [max(each)[1], min(each)[1]] == [0, 5]
        assert [shade for _, shade in sorted(each)] == sorted((shade for _, shade in each), reverse=True)


def test_the_palette_names_no_kind_of_thing_that_it_has_none_of(look: Look) -> None:
    page = look("/").page
    page.keyboard.press("Control+k")
    page.get_by_placeholder("A page, a fleet").fill(AGENTS)
    page.locator("[cmdk-group-heading]").first.wait_for()
    assert "Fleets" in page.locator("[cmdk-group-heading]").all_inner_texts()
    assert "Pages" not in page.locator("[cmdk-group-heading]").all_inner_texts()


def test_gpus_on_a_page_have_colours_of_their_own(look: Look) -> None:
    page = look("/market?cloud=every").page
    colours = page.locator(".legend .swatch").evaluate_all(
        "all => all.map(each => getComputedStyle(each).backgroundColor)"
    )
    assert len(colours) > 3
    assert len(set(colours)) == len(colours)
