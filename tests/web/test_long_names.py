"""Names of 300 characters wherever a page shows a name: the page stays as wide as its window."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import Error, Route

from tests.web.conftest import Console
from tests.web.test_pages import PATHS
from tests.web.watched import Watched

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]
Look = Callable[..., Watched]
LONG = "x" * 300
NAMES = {
    "model", "zone", "subject", "text", "reason", "project", "instance_type", "source", "region", "actor", "app",
    "request_type", "phase", "leg", "config", "node_config", "name", "market", "kind", "gpu", "state", "policy",
    "failure", "left_out", "fleet", "scope",
}  # fmt: skip
"""Fields that a page shows, and that no other request is made of here."""


def lengthened(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: lengthened(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [lengthened(each, name) for each in value]
    return LONG if isinstance(value, str) and name in NAMES else value


def answer(route: Route) -> None:
    # Fleets and apps are asked for by their names, and who is signed in decides what may be done.
    asked = route.request.url.partition("/api/v1/")[2]
    if asked == "session" or asked.startswith(("fleets", "apps")):
        route.continue_()
        return
    with suppress(Error):  # who goes to the next page waits for no answer
        response = route.fetch()
        route.fulfill(response=response, body=json.dumps(lengthened(response.json())))


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_no_name_makes_a_page_wider_than_its_window(look: Look, console: Console, width: int, height: int) -> None:
    watched = look("/tokens", viewport={"width": width, "height": height})
    page = watched.page
    page.route(lambda url: "/api/v1/" in url and ":follow" not in url, answer)
    instance = console.api("/instances?limit=1")["items"][0]["id"]
    wide = {}
    for path in (*PATHS, f"/fleet/{instance}", f"/fleet/{instance}?tab=history"):
        watched.go(path)
        if path not in ("/what-if", "/templates", "/apps", "/specs", "/playground"):  # which name fleets and apps only
            page.locator(f"text={LONG[:40]}").first.wait_for(state="attached")
        if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
            wide[path] = found
    assert wide == {}
