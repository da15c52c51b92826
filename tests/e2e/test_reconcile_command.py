"""`medley apply`, `approve`, `fleets` and `reconcile` as a platform team uses them, on the local cloud."""

import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from control.cloud.local.cloud import LocalCloud
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.server import ApiServer
from control.db.cluster import PostgresCluster
from control.db.database import open_database
from control.db.embedded import embedded_server
from control.db.intents import PostgresIntents
from control.hub.hub import CHANNEL
from control.reconcile.daemon_home import DaemonHome
from tests.control.lifecycle.worlds import START
from tests.control.profiles.given import give_profiles
from tests.e2e.conftest import MEDLEY, environment, run_medley
from tests.e2e.test_up_command import QUICK
from tests.forked import Forked
from tests.free_port import free_port

FLEET = "small"
PATIENCE_S = 480.0
RENTED = """\
apiVersion: medley/v1
kind: Fleet
name: rented
models:
  - model: gpt-oss-20b
    slo: {ttft_ms: 2000, tpot_ms: 200, keep: throughput}
    workload: azure-code
    disaggregated: false
    aggregated: true
    demand: {requests_per_s: 1}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L40S], counts: [1]}
solver: {n_max: 1, rho: 12}
"""


class Team:
    def __init__(self, home: Path) -> None:
        self.home = home
        hub, registry = free_port(), free_port()
        self.ports = (f"--hub-port={hub}", f"--registry-port={registry}")
        self.started: list[Forked] = []
        self.log = home / "reconcile.log"
        self.spec = home / "fleet.yaml"
        self.spec.write_text(QUICK)
        give_profiles(home, self.spec)

    def run(self, *arguments: str | Path, answer: str = "") -> subprocess.CompletedProcess[str]:
        words = [*map(str, arguments), *(self.ports if "reconcile" in arguments else ())]
        if not answer:
            return run_medley(environment(self.home), *words)
        given = {"input": answer, "env": environment(self.home), "timeout": 600}
        return subprocess.run([MEDLEY, *words], capture_output=True, text=True, check=False, **given)

    def ok(self, *arguments: str | Path) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self) -> Forked:
        with self.log.open("wb") as log:
            command = ("reconcile", *self.ports)
            started = Forked("medley", command, stdout=log, stderr=log, env=environment(self.home))
        self.started.append(started)
        return started

    def until(self, word: str) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while word not in self.log.read_text():
            assert time.monotonic() < give_up_s, self.log.read_text()
            time.sleep(0.05)

    def instances(self) -> list[Any]:
        return list(json.loads(self.ok("instances", "-o", "json")))

    def nodes(self) -> list[str]:
        """Names, of all instances."""
        return sorted(node["name"] for instance in self.instances() for node in instance["nodes"])

    def until_ready(self) -> None:
        """Every instance is."""
        give_up_s = time.monotonic() + PATIENCE_S
        while {instance["state"] for instance in self.instances()} != {"ready"}:
            assert time.monotonic() < give_up_s, self.log.read_text()
            time.sleep(0.2)

    def agents(self) -> list[int]:
        """Pids of node agents."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if "agents.node" in line and str(self.home) in " ".join(line):
                found.append(process.pid)
        return sorted(found)


@pytest.fixture
def team(short_tmp: Path) -> Iterator[Team]:
    home = Path(tempfile.mkdtemp(prefix="team-", dir=short_tmp))
    with embedded_server(home / "postgres"):
        made = Team(home)
        yield made
        for process in made.started:
            process.kill()
            process.wait()
        cloud = LocalCloud(home / "control" / "local-cloud", ())
        for node in cloud.list({}, START):
            cloud.terminate(node.name, START)
        sky = SkyPilotHome(DaemonHome.below(home).skypilot, "whoever")
        if sky.path.exists():  # its server outlives the loop that started it
            ApiServer(sky).stop()


def test_what_is_wrong_with_a_fleet_is_said_and_nothing_is_put_on_record(team: Team) -> None:
    bad = team.home / "bad.yaml"
    bad.write_text(QUICK.replace("demand:", "demnad:"))
    done = team.run("apply", "-f", bad)
    assert (done.returncode, "demnad" in done.stderr) == (1, True)
    looped = team.run("reconcile", "--once", "-f", bad, "--mode", "auto", "--yes")
    assert (looped.returncode, looped.stdout, looped.stderr) == (1, "", done.stderr), "no loop, and the same words"
    lost = team.run("reconcile", "--once", "--mode", "auto")
    assert (lost.returncode, "name that with -f" in lost.stderr) == (1, True)
    assert json.loads(team.ok("fleets", "list", "-o", "json")) == []
    for command in (("approve", "nobody"), ("fleets", "mode", "nobody", "auto"), ("fleets", "end", "nobody")):
        done = team.run(*command)
        assert (done.returncode, "fleet 'nobody' is not stored" in done.stderr) == (1, True), done


def test_a_round_for_cron_says_what_somebody_should_know(team: Team) -> None:
    with open_database(data_dir=team.home / "postgres") as database:
        PostgresIntents(database).leaked("nobody-knows", "aws", START, None, START)
    assert "No alert is open" in team.ok("alerts", "list")
    team.ok("reconcile", "--once")
    assert "critical  leak  cloud aws: 1 nodes exist that no row explains" in team.ok("alerts", "list")


def test_nothing_is_rented_that_could_not_find_its_control_plane(team: Team) -> None:
    rented = team.home / "rented.yaml"
    rented.write_text(RENTED)
    asked = ("reconcile", "--once", "-f", rented, "--mode", "approve")
    refused = team.run(*asked, answer="n\n")
    assert (refused.returncode, "nothing was changed" in refused.stderr) == (1, True)
    assert json.loads(team.ok("fleets", "list", "-o", "json")) == []
    # In auto the plan may give way to one that rents nothing, as soon as no credentials are found.
    done = team.run(*asked, "--yes")
    assert "accepted for fleet rented; this loop applies it" in done.stdout
    assert (done.returncode, "nodes at aws would look for the control plane at 127.0.0.1" in done.stderr) == (1, True)
    assert json.loads(team.ok("instances", "-o", "json")) == []
    assert "fleet rented cannot be run: nodes at aws would look" in team.ok("status")
    assert "critical  fleet.trouble  fleet rented: it cannot be run: nodes at aws" in team.ok("alerts", "list")


@pytest.mark.slow
def test_a_fleet_from_its_first_look_to_its_end(team: Team) -> None:
    # Observe: priced, and not touched.
    shown = team.ok("apply", "-f", team.spec)
    assert "0.00 -> 0.0" in shown
    assert re.search(r"^the plan (saves|costs) .*homo", shown, re.MULTILINE)
    assert "nothing is touched" in shown
    assert f"{FLEET}: a plan waits for approval: mode observe touches nothing" in team.ok("reconcile", "--once")
    assert team.agents() == []
    (listed,) = json.loads(team.ok("fleets", "list", "-o", "json"))
    assert (listed["mode"], listed["plan"]) == ("observe", "")

    # Approve: what is shown is done once somebody has said yes.
    team.ok("fleets", "mode", FLEET, "approve")
    assert f"`medley approve {FLEET}` shows what it changes" in team.ok("reconcile", "--once")
    refused = team.run("approve", FLEET, answer="n\n")
    assert refused.returncode == 1
    assert "nothing was changed" in refused.stderr
    assert team.agents() == []
    assert "accepted for fleet" in team.run("approve", FLEET, answer="y\n").stdout

    # A control plane that is killed while nodes come up, and the one after it: no node is lost or there twice.
    killed = team.start()
    team.until("joined")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert "every fleet is as its plan says" in team.ok("reconcile", "--once")
    running = team.agents()
    instances = json.loads(team.ok("instances", "-o", "json"))
    assert {instance["state"] for instance in instances} == {"ready"}
    assert len(running) == sum(len(instance["nodes"]) for instance in instances)

    # Cron comes again, and there is nothing to do. A second control plane stands by, for longer than a node may be
    # silent, and takes over without losing one.
    assert "every fleet is as its plan says" in team.ok("reconcile", "--once")
    assert team.agents() == running
    nodes, leader = team.nodes(), team.start()
    team.until("is planned")
    assert "another control plane leads" in team.ok("reconcile", "--once")
    team.log = team.home / "other.log"
    began_s, stands_by = time.monotonic(), team.start()
    time.sleep(began_s + CHANNEL.lost_after_s + 1 - time.monotonic())
    leader.kill()
    leader.wait()
    team.until("is planned")
    team.until_ready()
    assert (team.nodes(), team.agents()) == (nodes, running)
    assert "silent" not in team.log.read_text()
    stands_by.send_signal(signal.SIGTERM)
    assert stands_by.wait(PATIENCE_S) == 0
    assert team.agents() == running

    # The end: everything is given back.
    team.ok("fleets", "end", FLEET, "--yes")
    team.ok("reconcile", "--once")
    assert team.agents() == []
    assert json.loads(team.ok("fleets", "list", "-o", "json")) == []


@pytest.mark.slow
def test_a_database_server_that_is_killed_under_the_loop_costs_no_node_and_no_command(team: Team) -> None:
    """The loop starts it again."""
    team.ok("apply", "-f", team.spec)
    team.ok("fleets", "mode", FLEET, "auto")
    server, leader = PostgresCluster.of(team.home / "postgres"), team.start()

    # While nodes come up: each is asked for once.
    team.until("joined")
    psutil.Process(server.address().pid).kill()
    team.until("started again")
    team.until_ready()
    running, nodes = team.agents(), team.nodes()
    assert len(running) == len(nodes)

    # While one dies, which nobody can write down: it is replaced, once, as soon as that can be done.
    psutil.Process(server.address().pid).kill()
    psutil.Process(running[0]).kill()
    give_up_s = time.monotonic() + PATIENCE_S
    while {name for name in team.nodes() if name} <= set(nodes) or len(team.nodes()) < len(nodes):
        assert time.monotonic() < give_up_s, team.log.read_text()
        time.sleep(0.2)
    team.until_ready()
    assert len(team.agents()) == len(team.nodes()) == len(nodes)
    assert leader.poll() is None

    team.ok("fleets", "end", FLEET, "--yes")
    while team.agents():
        assert time.monotonic() < give_up_s + PATIENCE_S, team.log.read_text()
        time.sleep(0.2)
    leader.send_signal(signal.SIGTERM)
    assert leader.wait(PATIENCE_S) == 0
