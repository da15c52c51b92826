"""The console without a mouse."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from control.access.role import Role
from tests.web.conftest import Console
from tests.web.test_pages import PATHS
from tests.web.watched import PATIENCE_MS, Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]

_REACHABLE = """() => {
  const all = [...document.querySelectorAll('#root :is(a[href], button, input, select, textarea, [tabindex="0"])')];
  // A group of buttons hands its focus on, and rows that are not in sight are not drawn yet.
  const handsOn = each => each.matches('.segments, .instances *');
  const isShown = each => each.tabIndex >= 0 && each.getClientRects().length && !each.disabled;
  const seen = all.filter(each => isShown(each) && !handsOn(each));
  seen.forEach((each, number) => { each.dataset.reach = number; });
  return seen.length;
}"""
_HERE = """() => {
  const at = document.activeElement;
  const looks = getComputedStyle(at);
  const isSeen = looks.outlineStyle !== 'none' && parseFloat(looks.outlineWidth) > 0;
  return [at.dataset.reach ?? null, isSeen, at.outerHTML.slice(0, 120)];
}"""


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_tab_reaches_everything_in_its_order_and_shows_where_it_is(look: Look, path: str) -> None:
    page = look(path).page
    count = page.evaluate(_REACHABLE)
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
    page.locator("body").focus()
    reached, unseen = [], []
    for _ in range(count + 200):
        page.keyboard.press("Tab")
        number, is_seen, html = page.evaluate(_HERE)
        if number is None:
            continue
        if number in reached:
            break
        reached.append(number)
        if not is_seen:
            unseen.append(html)
    assert unseen == []
    assert len(reached) == count
    order = [int(number) for number in reached]
    assert order[order.index(0) :] + order[: order.index(0)] == sorted(order)


def test_an_instance_is_opened_looked_into_and_left_by_keys(look: Look, console: Console) -> None:
    ready = next(i["id"] for i in reversed(console.api("/instances?limit=200")["items"]) if i["state"] == "ready")
    page = look(f"/fleet?q={ready}", Role.OPERATOR).page
    row = page.locator(f"a[href*='{ready}']")
    row.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog")
    drawer.wait_for()
    drawer.get_by_role("tab", name="Nodes").focus()
    page.keyboard.press("ArrowRight")
    drawer.locator(".steps li").first.wait_for()
    drain = drawer.get_by_role("button", name="Drain")
    drain.focus()
    asked = page.get_by_role("dialog", name=f"Drain {ready}?")
    for _ in range(5):  # as fast as a question can be seen: both were left at times
        page.keyboard.press("Enter")
        asked.wait_for()
        page.keyboard.press("Escape")
        asked.wait_for(state="detached")
        expect(drain, "Escape leaves the question, not what it is about").to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")
    page.wait_for_function("id => document.activeElement.getAttribute('href')?.includes(id)", arg=ready)


def test_any_page_is_reached_by_typing_its_name(look: Look) -> None:
    page = look("/").page
    page.keyboard.press("Control+k")
    page.get_by_placeholder("A page, a fleet, an instance…").wait_for()
    page.keyboard.type("mark")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Market", level=1).wait_for()
    assert page.evaluate("document.activeElement.id") == "main"
