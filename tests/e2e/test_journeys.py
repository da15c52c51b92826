"""The steps of docs/journeys.md, typed as they stand there, and no more of them than elsewhere."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess

import psutil
import pytest

from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.node import NodeRequest
from control.db.database import open_database
from control.db.installation import owner_of
from control.db.revision import REVISIONS
from control.executor.bill_tags import bill_tags
from control.executor.nodes import OWNER_TAG
from control.ledger.period import month_so_far
from control.reconcile.daemon_home import DaemonHome
from templates_lib.values.offer import Market
from tests.control.db.processes import wait_until
from tests.control.lifecycle.worlds import START
from tests.control.profiles.given import give_profiles
from tests.e2e.conftest import MEDLEY, Run, environment, run_medley
from tests.e2e.test_up_command import MODEL, PATIENCE_S, Up, running_in
from tests.e2e.test_wheel import built_wheel, run
from tests.forked import Forked
from tests.free_port import free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "journeys.md").read_text()
TABLE = re.findall(r"^\| \[([^]]+)\]\(#\S+\) \| (\d+) \| (\d+|–) \| (\d+|–) \|$", PAGE, re.MULTILINE)
HONEST_TPOT_MS, HARD_TPOT_MS = 2_000, 10
"""What one processor keeps, and what it cannot: it needs longer to read the weights once."""
FLEET = f"""\
apiVersion: medley/v1
kind: Fleet
name: mine
models:
  - model: {MODEL}
    slo: {{ttft_ms: 20000, tpot_ms: TPOT_MS, percentile: 80, keep: throughput}}
    workload: sharegpt
    demand: {{requests_per_s: 0.01}}
    disaggregated: false
    aggregated: true
clouds:
  - cloud: local
    kinds:
      - {{name: whole, cpu_cores: 0.9, memory_mib: 900, stock: 2, usd_per_hour: 0.01}}
solver: {{n_max: 1}}
"""
"""One node serves it."""
LEAKED, LEAKED_USD_PER_HOUR = "medley-forgotten-0-0", 36.0
OLDER = REVISIONS[-4]
"""Of the tables of an older release."""


def steps(journey: str) -> list[str]:
    """The lines that a person types."""
    (section,) = re.findall(rf"^## {journey}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    lines: list[str] = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    return lines


class Desk:
    """Where a person types: a home of its own, and the file that the page names."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.spec = home / "fleet.yaml"
        self.out = home / "out"
        self.started: list[Forked] = []

    def write(self, tpot_ms: int, times: float = 1.0) -> None:
        """Write the file, and profiles of its nodes, by which steps take `times` of what they really take."""
        self.spec.write_text(FLEET.replace("TPOT_MS", str(tpot_ms)))
        give_profiles(self.home, self.spec, times)

    def typed(self, line: str) -> str:
        done = run_medley(environment(self.home), *self._words(line))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, line: str, *more: str) -> Forked:
        """Type what stays."""
        with self.out.open("wb") as out:
            words = *self._words(line), *more
            self.started.append(Forked("medley", words, stdout=out, stderr=out, env=environment(self.home)))
        return self.started[-1]

    def until(self, line: str, holds: Callable[[str], object]) -> str:
        """Type it again and again."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not holds(shown := self.typed(line)):
            assert time.monotonic() < give_up_s, shown + self.out.read_text()
            time.sleep(0.2)
        return shown

    def agents(self) -> list[int]:
        """Pids of the nodes' agents."""
        return sorted(pid for pid, line in running_in(self.home).items() if "agents.node" in line)

    def _words(self, line: str) -> list[str]:
        command, *words = shlex.split(line)
        assert command == "medley"
        return [str(self.spec) if word == self.spec.name else word for word in words]


@pytest.fixture
def desk() -> Iterator[Desk]:
    """Its path is short enough for a server's socket. Whatever runs in it at the end is ended."""
    made = Desk(Path(tempfile.mkdtemp(prefix="medley-way-")))
    yield made
    for process in made.started:
        process.kill()
        process.wait()
    for name in ("control", "up"):
        cloud = LocalCloud(made.home / name / "local-cloud", ())
        for node in cloud.list({}, START):
            cloud.terminate(node.name, START)
    for pid in running_in(made.home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(made.home, ignore_errors=True)


def stays(desk: Desk, words: list[str | Path], **variables: str) -> Up:
    """A `medley up` in a terminal of its own: Ctrl-C there reaches all that it has started."""
    kept = {name: value for name, value in environment(desk.home).items() if not name.startswith(("MAKE", "MFLAGS"))}
    with desk.out.open("wb") as out:
        process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=kept | variables,
            start_new_session=True,
        )  # fmt: skip
    return Up(desk.home, process, desk.out)


def interrupt(up: Up) -> None:
    """Ctrl-C, after which nothing is left."""
    os.killpg(up.process.pid, signal.SIGINT)
    up.process.wait(PATIENCE_S)
    assert "down       nothing runs any more" in up.said
    wait_until(lambda: running_in(up.home) == {})


def test_the_ways_of_the_page_have_no_more_steps_than_elsewhere() -> None:
    assert len(TABLE) == 8
    for name, ours, *others in TABLE:
        assert len(steps(name)) == int(ours), name
        assert all(int(ours) <= int(each) for each in others if each != "–"), name


@pytest.mark.slow
def test_a_fleet_is_planned_explained_and_held_to_a_budget(medley: Run, database_url: str, tmp_path: Path) -> None:
    def typed(line: str) -> CompletedProcess[str]:
        words = line.replace("fleet.yaml", str(tmp_path / "fleet.yaml"))  # in a folder of its own
        return medley(*shlex.split(words)[1:], MEDLEY_DATABASE_URL=database_url)

    wrote, planned = map(typed, steps("plan a fleet"))
    assert (wrote.returncode, planned.returncode) == (0, 0), planned.stderr
    assert "medley plan -f" in wrote.stdout
    assert "$/h" in planned.stdout
    (explained,) = map(typed, steps("why this plan"))
    assert explained.returncode == 0, explained.stderr
    assert "What binds" in explained.stdout
    budget, within = map(typed, steps("a budget is hit"))
    assert budget.returncode == 0, budget.stderr
    assert "budget of project default" in within.stdout + within.stderr


@pytest.mark.slow
@pytest.mark.needs("make")
def test_a_clone_serves_a_token_and_a_model_that_is_slower_than_planned_is_named(desk: Desk) -> None:
    up, chat = steps("laptop to token")
    (status,) = steps("a slow model")
    desk.write(HARD_TPOT_MS, times=1e-3)
    there = ("-o", ".venv/.installed-up", "-o", "web", "VENV=.venv", f"BIN={Path(MEDLEY).parent}")  # is installed
    options = f"ARGS=-f {desk.spec} --port 0 --console-port 0"
    running = stays(desk, [*shlex.split(up), *there, options])
    running.until_ready()
    assert desk.typed(chat).strip()
    assert re.search(rf"^{MODEL}: 1 requests.* TPOT .* \(SLO {HARD_TPOT_MS} ms, exceeded from p50 on\)",
                     desk.typed(status), re.MULTILINE)  # fmt: skip
    interrupt(running)


@pytest.mark.slow
def test_a_fleet_is_launched_watched_and_repaired_and_a_leaked_node_is_ended_and_priced(desk: Desk) -> None:
    launch, watch = steps("launch, watch, repair")
    (cost,) = steps("a leaked node")
    desk.write(HONEST_TPOT_MS)
    hub, registry = free_port(), free_port()
    loop = desk.start(launch, f"--hub-port={hub}", f"--registry-port={registry}")
    wait_until(lambda: "accepted for fleet mine; this loop applies it" in desk.out.read_text())

    # A machine of ours that no row explains, for an hour already.
    cloud = LocalCloud(DaemonHome.below(desk.home).cloud, [LocalKind("forgotten", 0.1, 64, 1)])
    now = datetime.now(UTC)
    since = max(now - timedelta(hours=1), month_so_far(now).since)  # what `medley cost` shows begins with the month
    with open_database(data_dir=desk.home / "postgres") as database:
        tags = {OWNER_TAG: owner_of(database), **bill_tags(LEAKED_USD_PER_HOUR, since)}
    cloud.create(NodeRequest(LEAKED, "local", "local", "forgotten", Market.ON_DEMAND, tags, ("sleep", "3600")), START)
    counted = re.compile(r"^leaked: (?!0\.00)(\S+) \$$", re.MULTILINE)  # and none of them exists any more
    shown = counted.search(desk.until(cost, counted.search))
    assert shown is not None
    assert float(shown[1]) >= round(LEAKED_USD_PER_HOUR * (now - since) / timedelta(hours=1), 2)
    assert LEAKED not in {node.name for node in cloud.list({}, START)}

    desk.until(watch, lambda shown: " 1 of 1 " in shown)
    (agent,) = desk.agents()
    psutil.Process(agent).kill()
    desk.until(watch, lambda shown: " 0 of 1 " in shown)
    desk.until(watch, lambda shown: " 1 of 1 " in shown)
    wait_until(lambda: len(desk.agents()) == 1)
    assert desk.agents() != [agent]
    loop.send_signal(signal.SIGTERM)
    assert loop.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_tables_of_an_older_release_and_its_fleet_are_taken_over(desk: Desk) -> None:
    install, up = steps("upgrade")
    desk.write(HONEST_TPOT_MS)
    desk.typed("medley apply -f fleet.yaml")
    desk.typed(f"medley db downgrade {OLDER}")
    refused = run_medley(environment(desk.home), "fleets", "list")
    assert f"is at revision {OLDER}, this release needs {REVISIONS[-1]}" in refused.stderr

    wheel, site = built_wheel(desk.home), desk.home / "site"
    command, *words = shlex.split(install.replace("WHEEL", str(wheel)))
    run("-m", command, *words, "--quiet", "--no-deps", "--no-index", "--target", site)
    _, *words = shlex.split(up)
    options = ("-f", desk.spec, "--port", "0", "--console-port", "0")
    running = stays(desk, [site / "bin" / "medley", *words, *options], PYTHONPATH=str(site))
    running.until("requested -> ")
    assert re.search(r"^mine .* auto ", desk.typed("medley fleets list"), re.MULTILINE)
    interrupt(running)
