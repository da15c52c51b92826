"""Every action of every page, for somebody who may not: it stays, does nothing, and says why."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Request

from bench.console_world.specs import AGENTS, ASSISTANTS, IDLE, PICTURES
from control.access.role import Role
from tests.web.conftest import Console
from tests.web.watched import Watched

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., Watched]
ACTIONS = {
    "/plans": {"Plan it now", "Reject", "Approve", "Verify", "Find costs"},
    "/what-if": {"Run what-if"},
    "/market": {"Ask now", "Accept"},
    "/cost": {"New budget", "Change the budget of fleet search-agents", "Change the budget of project support"},
    "/tokens": {"New token", "New project", "Change default", "Change search", "Change support"},
    "/specs": {
        "New fleet",
        *(f"{act} {fleet}" for act in ("Mode of", "End") for fleet in (ASSISTANTS, AGENTS, IDLE, PICTURES)),
    },
    "/webhooks": {"New webhook"},
}

_DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


def refused(watched: Watched) -> set[str]:
    """Names of the buttons that do nothing."""
    script = "all => all.map(each => each.getAttribute('aria-label') ?? each.textContent)"
    return set(watched.page.locator("button[aria-disabled=true]").evaluate_all(script))


def test_a_viewer_sees_every_action_and_why_it_is_not_theirs(look: Look, console: Console) -> None:
    instance = next(i["id"] for i in console.api("/instances?limit=200")["items"] if i["state"] == "ready")
    watched = look("/", Role.VIEWER)
    page = watched.page
    written: list[str] = []

    def asked(request: Request) -> None:
        if request.method != "GET":
            written.append(request.url)

    page.on("request", asked)
    proposed = f"/plans/{console.world.proposed}"
    is_waiting = console.api("/fleets/assistants")["plan"]["proposed"] == console.world.proposed
    expected = {path: names for path, names in ACTIONS.items() if path != "/plans"}
    expected[proposed] = ACTIONS["/plans"] if is_waiting else {"Plan it now", "Verify", "Find costs"}
    expected[f"/fleet/{instance}"] = {"Drain"}
    found = {}
    for path in expected:
        watched.go(path)
        found[path] = refused(watched)
        for button in page.locator("button[aria-disabled=true]").all():
            button.scroll_into_view_if_needed()
            page.evaluate(_DRAWN)  # what scrolls closes a word that is open
            button.focus()
            tip = page.get_by_role("tooltip").filter(has_text=re.compile("takes the role (operator|admin)"))
            tip.wait_for()
            page.keyboard.press("Enter")
            button.blur()
            tip.wait_for(state="hidden")
    assert found == expected
    assert written == []
