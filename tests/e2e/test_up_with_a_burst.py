"""`medley up` with a model whose load is metered, when much more of it comes at once than its plan has."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.agents.engines.components.tiny_pictures import save_pictures
from tests.control.db.processes import wait_until
from tests.e2e.conftest import environment, run_medley
from tests.e2e.test_up_command import PATIENCE_S, command, running_in, start

pytestmark = pytest.mark.slow

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: makers
apps:
  - name: shapes
    graph: pictures/config.json
    weights: path:pictures
    request_types:
      - {type: text-to-image, share: 1, lengths: {image_pixels: 256, steps: 3}, slo: {image_s: 20}}
    demand: {metered: true, floor_requests_per_s: 0.02, forecast: {policy: last}}
policy: {utilisation_cap: 0.02, pools: {burst: {hold_minutes: 30}}}
reconcile: {replan_minutes: 60}
clouds:
  - cloud: local
    kinds:
      - {name: maker, cpu_cores: 0.3, memory_mib: 560, stock: 2, usd_per_hour: 0.03}
"""
BURST = 40


@pytest.fixture
def home() -> Iterator[Path]:
    """A path short enough for a server's socket. Whatever runs in it at the end is killed."""
    home = Path(tempfile.mkdtemp(prefix="medley-burst-"))
    (home / "spec.yaml").write_text(SPEC)
    save_pictures(home / "pictures")
    yield home
    for pid in running_in(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)


def test_a_burst_gets_more_nodes_long_before_the_next_plan(home: Path) -> None:
    up = start(home)
    url, key = up.until_ready()

    def ready() -> int:
        return [each["state"] for each in command(home, "instances")].count("ready")

    def asked(seed: int) -> int:
        body = {"model": "shapes", "prompt": "a red circle", "size": "16x16", "seed": seed}
        headers = {"authorization": f"Bearer {key}"}
        return httpx.post(f"{url}/v1/images/generations", json=body, headers=headers, timeout=PATIENCE_S).status_code

    assert ready() == 1
    with ThreadPoolExecutor(BURST) as pool:
        assert set(pool.map(asked, range(BURST))) <= {200, 429}, "what is refused is asked for all the same"
    wait_until(lambda: command(home, "demand", "show", "makers")["overrides"] != [])
    (override,) = command(home, "demand", "show", "makers")["overrides"]
    assert (override["model"], override["made_by"]) == ("shapes", "burst")
    assert "shapes/" in override["reason"]
    wait_until(lambda: ready() == 2)
    assert "shapes/picture has 1" in " ".join(event["text"] for event in command(home, "audit", "--kind", "pool.burst"))
    shown = run_medley(environment(home), "demand", "show", "makers").stdout
    assert "burst" in shown
    assert "shapes/picture has 1" in " ".join(shown.split())
    newest = command(home, "plans", "list")[0]["id"]
    explained = run_medley(environment(home), "explain", newest).stdout
    assert "What it is planned for instead of the forecast" in explained
    assert "set by burst: shapes/picture has 1" in " ".join(explained.split())
    assert up.end(signal.SIGINT) == 0
    assert "Traceback" not in up.said + (home / "up.log").read_text()
    wait_until(lambda: running_in(home) == {})
