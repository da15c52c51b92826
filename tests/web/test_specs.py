"""Fleets that are made and changed in the browser, with what they would cost."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser
from sqlalchemy.engine import URL

from bench.api_process import serving
from bench.console_world.specs import IDLE
from bench.console_world.world import fill_console_world
from control.access.role import Role
from control.db.database import open_database
from tests.conftest import fresh_database
from tests.web.conftest import SMALL, Console
from tests.web.watched import Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]
TEXT = "Spec (YAML)"


def test_a_mode_is_changed_and_said_what_it_means(look: Look, console: Console) -> None:
    watched = look("/specs", Role.OPERATOR)
    page = watched.page
    page.get_by_role("button", name=f"Mode of {IDLE}").click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("radio", name="approve").check()
    asked.get_by_role("button", name="Set mode approve").click()
    refused = page.get_by_role("alert")
    refused.or_(page.locator("tr", has_text=IDLE).get_by_text("approve")).first.wait_for()
    stored = console.api(f"/fleets/{IDLE}")["mode"]
    # Where weights cannot be looked at (no network) the change is refused in words.
    assert stored == ("observe" if refused.count() else "approve")
    watched.complaints[:] = [each for each in watched.complaints if "422" not in each and "409" not in each]


@pytest.fixture
def console_that_plans(server_url: URL, short_tmp: Path) -> Iterator[Console]:
    """Previews are plans, which workers make."""
    with fresh_database(server_url) as url, open_database(url) as database:
        world = fill_console_world(database, short_tmp, datetime.now(UTC), SMALL)
        with serving(url, short_tmp, workers=1) as (_, base):
            yield Console(base, database, world)


@pytest.mark.slow
def test_a_fleet_is_written_priced_created_and_changed(browser: Browser, console_that_plans: Console) -> None:
    console = console_that_plans
    watched = Watched.open(browser, console.url, console.world.tokens[Role.OPERATOR])
    watched.go("/specs?new=1&name=written&rate=3")
    page = watched.page
    text = page.get_by_label(TEXT)
    begun = text.input_value()
    assert yaml.safe_load(begun)["name"] == "written"
    text.fill(begun.replace("ttft_ms: 2000", "ttft_ms: soon"))
    wrong = page.get_by_role("list", name="What is wrong").get_by_role("button")
    wrong.wait_for()
    line = 1 + next(n for n, each in enumerate(begun.splitlines()) if "ttft_ms: 2000" in each)
    assert wrong.inner_text() == f"line {line}"
    assert page.get_by_role("button", name="Create…").get_attribute("aria-disabled") == "true"
    wrong.click()
    selected = page.evaluate("getSelection().toString()")
    assert "ttft_ms: soon" in selected
    text.fill(begun)
    preview = page.get_by_role("region", name="What it would cost")
    preview.get_by_text("The whole plan").wait_for()
    first = float(preview.locator(".figure data").get_attribute("value") or "nan")
    text.fill(begun.replace("requests_per_s: 3", "requests_per_s: 60"))
    page.wait_for_function(
        "before => Number(document.querySelector('.burn .figure data')?.getAttribute('value')) > before", arg=first
    )
    text.fill(f"# ours\n{begun}")
    page.get_by_role("button", name="Create…").click()
    page.get_by_role("dialog").get_by_role("button", name="Create", exact=True).click()
    page.wait_for_url("**/specs/written")
    assert console.api("/fleets/written/source")["source"].startswith("# ours\n")
    watched.settle()
    page.get_by_label(TEXT).fill(begun)
    page.get_by_role("button", name="Save…").click()
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert console.api("/fleets/written/source")["source"] == begun
    watched.go("/specs")
    page.get_by_role("button", name="End written").click()
    page.get_by_role("dialog").get_by_role("button", name="End the fleet").click()
    page.get_by_role("link", name="written", exact=True).wait_for(state="detached")
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 1280
    watched.close()
