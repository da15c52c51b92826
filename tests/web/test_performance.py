"""Charts over one time range, which the address says."""

from collections.abc import Callable

import pytest

from bench.console_world.specs import ASSISTANTS, PROMISING
from tests.web.conftest import Console
from tests.web.watched import Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]


def plot(watched: Watched, title: str, within: str = "All together") -> float:
    """The newest value of a plot's first line."""
    region = watched.page.get_by_role("region", name=within).get_by_role("region", name=title, exact=True)
    return float(region.locator(".legend data").first.get_attribute("value") or "nan")


def test_the_range_is_in_the_address_and_holds_for_every_chart(look: Look, console: Console) -> None:
    watched = look("/performance")
    page = watched.page
    page.get_by_role("radio", name="24 hours").click()
    page.wait_for_url("**range=24h*")
    watched.settle()
    asked = [answer.url for answer in watched.answers if "/series?" in answer.url]
    assert len(asked) == 2, "one question for all charts"
    box = page.locator(".plot canvas").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, y, steps=4)
    page.mouse.up()
    page.wait_for_url("**since=*until=*")
    watched.settle()
    span = look(page.url.removeprefix(console.url)).page.get_by_role("button", name="Another time range").inner_text()
    assert span == page.get_by_role("button", name="Another time range").inner_text()


def test_promised_stands_beside_kept_for_a_model(look: Look, console: Console) -> None:
    watched = look(f"/performance?range=6h&fleet={ASSISTANTS}&model={PROMISING}")
    (model,) = console.api(f"/series?fleet={ASSISTANTS}&model={PROMISING}")["models"]
    card = watched.page.get_by_role("region", name=PROMISING)
    kept = card.get_by_role("region", name="Answers in time: promised and kept").locator(".legend > span")
    shown = {each.inner_text().split("\n")[0] for each in kept.all()}
    assert shown >= {"TTFT", "TPOT", "promised"} if model["latencies"][0]["promised"] else {"TTFT", "TPOT"}
    assert watched.page.locator("#main .plot canvas").count() >= 8


def test_an_instance_has_its_own_load_and_cost(look: Look, console: Console) -> None:
    instance = next(i for i in console.api("/instances?limit=200")["items"] if i["state"] == "ready")
    drawer = look(f"/fleet/{instance['id']}")
    drawer.page.get_by_role("link", name="Load and cost").click()
    drawer.page.wait_for_url("**/performance?instance=*")
    drawer.settle()
    assert plot(drawer, "Instances that report") == 1
    assert drawer.page.get_by_role("region", name="Requests a second", exact=True).count() == 0
    drawer.page.get_by_text("Gateways count requests and latencies by model").wait_for()
