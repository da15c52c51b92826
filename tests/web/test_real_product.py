"""The console of a real `medley up`: real nodes, a real reconciler, and a browser that does what an operator does."""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.control.profiles.given import give_profiles
from tests.e2e.conftest import MEDLEY, environment
from tests.e2e.test_up_command import MODEL, Up, answer, running_in, start
from tests.web.test_pages import PATHS
from tests.web.watched import Watched

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
PATIENCE_S = 480.0
SPEC = f"""\
apiVersion: medley/v1
kind: Fleet
name: small
models:
  - model: {MODEL}
    slo: {{ttft_ms: 20000, tpot_ms: 2000, percentile: 80, keep: throughput}}
    workload: sharegpt
    demand: {{requests_per_s: 0.01}}
    disaggregated: false
    aggregated: true
clouds:
  - cloud: local
    kinds:
      - {{name: lesser, cpu_cores: 0.9, memory_mib: 360, stock: 3, usd_per_hour: 0.01}}
      - {{name: greater, cpu_cores: 1.0, memory_mib: 460, stock: 3, usd_per_hour: 0.015}}
"""
"""An instance is a pipeline of two nodes: neither kind has room for the model's 513 MiB."""


class Api:
    """What the console shows is held against it."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=120)

    def __call__(self, path: str) -> Any:
        found = self._client.get(path)
        found.raise_for_status()
        return found.json()

    def change_fleet(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        before = self._client.get("/fleets/small")
        body = change({name: before.json()[name] for name in ("spec", "mode")})
        headers = {"If-Match": before.headers["etag"]}
        self._client.put("/fleets/small", json=body, headers=headers).raise_for_status()

    def states(self) -> dict[str, str]:
        return {each["id"]: each["state"] for each in self("/instances?limit=200")["items"]}


def until(found: Callable[[], Any], what: str) -> Any:
    give_up_s = time.monotonic() + PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < give_up_s, what
        time.sleep(0.2)
    return value


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """One that serves; it is ended as its user ends it, and leaves nothing."""
    home = Path(tempfile.mkdtemp(prefix="medley-console-"))
    try:
        (home / "spec.yaml").write_text(SPEC)
        give_profiles(home, home / "spec.yaml")
        running = start(home, "--console-port", "0")
        try:
            running.until_ready()
            yield running
        finally:
            if running.process.poll() is None:
                running.process.terminate()
                running.process.wait(PATIENCE_S)
            until(lambda: running_in(home) == {}, "something is left of it")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def operator(up: Up) -> tuple[str, str]:
    """URL of the console and a token, each as what is printed says."""
    console = re.search(r"^console\s+(http://[^/\s]+)", up.said, re.M)
    make = re.search(r"^For the console: medley (token create you --role operator)$", up.said, re.M)
    assert console, up.said
    assert make, up.said
    made = subprocess.run(
        [MEDLEY, *make[1].split()], capture_output=True, text=True, env=environment(up.home), timeout=300, check=True
    )
    token = re.search(r"medley_\w+", made.stdout)
    assert token, made.stdout
    return console[1], token[0]


@pytest.fixture
def watched(browser: Browser, operator: tuple[str, str]) -> Iterator[Watched]:
    """Signed in through the page."""
    url, token = operator
    found = Watched.open(browser, url)
    found.page.goto(url)
    found.page.get_by_label("token", exact=False).first.fill(token)
    found.page.get_by_role("button", name="Sign in").click()
    found.settle()
    yield found
    found.close()


def test_every_page_shows_what_the_api_says_and_complains_of_nothing(up: Up, watched: Watched) -> None:
    assert "Paris" in answer(*up.until_ready())  # so that there is a latency to show
    strange: dict[str, Any] = {}
    for path in PATHS:
        watched.answers.clear()
        watched.go(path)
        strange |= {path: wrong} if (wrong := watched.untrue()) else {}
        assert (
            watched.figures()
            or path in ("/what-if", "/events", "/tokens", "/playground")
            or watched.page.locator("#main .empty").count()
        ), path
    assert strange == {}


def test_a_plan_is_approved_and_then_runs_and_what_is_drained_goes(
    up: Up, watched: Watched, operator: tuple[str, str]
) -> None:
    api, page = Api(*operator), watched.page
    (first,) = api.states()

    # Two instances are wanted, and the fleet waits for somebody's approval.
    def at_least_two(fleet: dict[str, Any]) -> dict[str, Any]:
        fleet["spec"]["policy"] = fleet["spec"].get("policy", {}) | {"replicas": {f"{MODEL}/aggregated": {"min": 2}}}
        return fleet | {"mode": "approve"}

    api.change_fleet(at_least_two)
    proposed = until(lambda: api("/fleets/small")["plan"]["proposed"], "no plan was proposed")
    watched.go(f"/plans/{proposed}")
    diff = api(f"/plans/{proposed}/diff")
    assert (diff["launched"], diff["kept"], diff["drained"]) == (1, 1, 0)
    page.get_by_role("region", name="What changes").get_by_text("launch", exact=True).wait_for()
    assert set(api.states()) == {first}, "nothing is launched before somebody approves"
    page.get_by_role("button", name="Approve").click()
    asked = page.get_by_role("dialog")
    asked.get_by_text("1 instance is launched").wait_for()
    asked.get_by_role("textbox").fill("there is room")
    asked.get_by_role("button", name="Approve").click()
    page.get_by_text("held to since").first.wait_for()
    watched.go("/fleet")
    second = until(lambda: next((i for i in api.states() if i != first), None), "nothing was launched")
    until(lambda: api.states() == {first: "ready", second: "ready"}, "the second instance is not ready")
    page.locator(f"a[href*='{second}'] .badge", has_text="ready").wait_for(timeout=240_000)  # told by the live feed

    # The first one is drained: it goes, and what the plan still wants comes in its place.
    page.locator(f"a[href*='{first}']").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("tab", name="Logs").click()
    drawer.locator(".log").first.wait_for()
    drawer.get_by_role("button", name="Drain").click()
    asked = page.get_by_role("dialog", name=f"Drain {first}?")
    asked.get_by_role("textbox").fill("its node is old")
    asked.get_by_role("button", name="Drain it").click()
    until(lambda: first not in api.states(), "what was drained did not go")
    steps = [step["to_state"] for step in api(f"/instances/{first}/history")["items"]]
    assert steps[-3:] == ["draining", "terminating", "terminated"]
    third = until(lambda: next((i for i in api.states() if i not in (first, second)), None), "nothing took its place")
    until(lambda: api.states() == {second: "ready", third: "ready"}, "what took its place is not ready")
    page.keyboard.press("Escape")
    page.locator(f"a[href*='{third}'] .badge", has_text="ready").wait_for(timeout=240_000)
    page.locator(f"a[href*='{first}']").wait_for(state="detached")
    assert "Paris" in answer(*up.until_ready())


def test_a_model_is_talked_to_and_who_answered_is_named(up: Up, watched: Watched, operator: tuple[str, str]) -> None:
    _, key = up.until_ready()
    api, page = Api(*operator), watched.page
    watched.go("/playground")
    page.get_by_label("Key for the gateway", exact=False).fill(key)
    page.get_by_label("Most tokens").fill("8")

    turn = page.locator(".turn").last

    def is_answered() -> bool:
        """Asked again where the plan, which is for one request in 100 seconds, has no room yet: the page says so."""
        asked = page.locator(".turn").count()
        page.get_by_label(f"Ask {MODEL}").fill("The capital of France is")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".turn")).to_have_count(asked + 1)
        turn.get_by_text(re.compile("answered by|at its capacity")).wait_for(timeout=240_000)
        watched.complaints = [each for each in watched.complaints if "409" not in each]  # the browser tells of refusals
        return turn.get_by_text("answered by").count() > 0

    until(is_answered, "the model did not answer")
    named = turn.locator("a[href^='/fleet/']").all_inner_texts()
    assert set(named) <= set(api.states())
    assert named
    assert turn.locator(".answer").inner_text().strip()
    assert turn.locator(".took data").first.get_attribute("value") == "8"
