"""`medley up` as a user meets it: one command, a client, Ctrl-C; and what is left when it is killed instead."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from openai import AuthenticationError, OpenAI

from control.db.cluster import PostgresCluster
from control.db.database import open_database
from control.db.plans import PostgresPlans
from control.db.projects import PostgresProjects
from control.planning.cost_models import cost_models_of, evidence_of
from control.planning.local_profiles import ensure_profiles, with_known_profiles
from control.planning.world import read_world
from templates_lib.cost.step_terms import step_terms
from templates_lib.ports.cost_model import NodeStep
from templates_lib.values.plan import Plan
from tests.control.db.processes import lives, wait_until
from tests.e2e.conftest import EXAMPLES, MEDLEY, Run, environment, run_medley

MODEL = "smollm2-135m-instruct"
PATIENCE_S = 300.0
SANE = 0.6
"""Of the held-out steps, the median error may not exceed this on a machine that does other things too."""
SPEC = f"""\
apiVersion: medley/v1
kind: Fleet
name: small
models:
  - model: {MODEL}
    slo: {{ttft_ms: 20000, tpot_ms: 2000, percentile: 80}}
    workload: sharegpt
    demand: {{requests_per_s: 0.01}}
clouds:
  - cloud: local
    kinds:
      - {{name: lesser, cpu_cores: 0.5, memory_mib: 360, stock: 2, usd_per_hour: 0.01}}
      - {{name: greater, cpu_cores: 0.8, memory_mib: 460, stock: 2, usd_per_hour: 0.015}}
"""
"""Neither kind has room for the model's 513 MiB."""
QUICK = (
    SPEC.replace("cpu_cores: 0.5", "cpu_cores: 0.9")
    .replace("cpu_cores: 0.8", "cpu_cores: 1.0")
    .replace("percentile: 80", "percentile: 80, keep: throughput")
)
"""For those that do not measure the nodes, which start in half of the time, and are not about what a plan promises,
which is simulated for ten seconds whenever one is made."""
QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]


@dataclass
class Up:
    """One `medley up` in a home, and what it says."""

    home: Path
    process: "subprocess.Popen[bytes]"
    out: Path

    @property
    def said(self) -> str:
        return self.out.read_text()

    def until_ready(self) -> tuple[str, str]:
        """URL and key, as printed."""
        give_up_s = time.monotonic() + PATIENCE_S
        while (
            found := re.search(r"^ready after \d+ s: (\S+)/v1 \(OpenAI-compatible\), key (\S+)$", self.said, re.M)
        ) is None:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < give_up_s, self.said
            time.sleep(0.05)
        return found[1], found[2]

    def until(self, words: str) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while words not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < give_up_s, self.said
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def up_home() -> Iterator[Path]:
    """A path short enough for a server's socket; profiles that were measured in it are used by all."""
    home = Path(tempfile.mkdtemp(prefix="medley-up-"))
    (home / "spec.yaml").write_text(SPEC)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def up_place(up_home: Path) -> Iterator[Path]:
    """Whatever runs in it at the end is killed."""
    yield up_home
    for pid in running_in(up_home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start(home: Path, *arguments: str) -> Up:
    out = home / f"out-{time.monotonic_ns()}"
    with out.open("wb") as output:
        process = subprocess.Popen(
            [MEDLEY, "up", "-f", str(home / "spec.yaml"), "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(home),
        )
    return Up(home, process, out)


def running_in(home: Path) -> dict[int, list[str]]:
    """All processes whose command line or environment names the home, by pid: command lines."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = [*process.cmdline(), *process.environ().values()]
            if process.pid != os.getpid() and lives(process.pid) and any(str(home) in word for word in words):
                found[process.pid] = process.cmdline()
    return found


def command(home: Path, *arguments: str) -> Any:
    run = run_medley(environment(home), *arguments, "-o", "json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def placement(plan: Plan) -> list[tuple[str, int, int, float, int]]:
    """(configuration, first layer, last layer, weight, KV blocks) of every node that the plan wants."""
    found = []
    for planned in plan.instances:
        assert planned.placement is not None
        for stage in planned.placement.payload["stages"]:
            last = stage["first_layer"] + stage["layers"] - 1
            for nodes in stage["nodes"]:
                one = (nodes["config"], stage["first_layer"], last, nodes["weight"], nodes["kv_blocks"])
                found += [one] * nodes["count"] * planned.count
    return sorted(found)


def flags(line: list[str]) -> dict[str, str]:
    return {name: value for name, value in pairwise(line) if name.startswith("--")}


def answer(url: str, key: str) -> str:
    client = OpenAI(base_url=f"{url}/v1", api_key=key, timeout=PATIENCE_S)
    done = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=12, temperature=0)
    return done.choices[0].message.content or ""


def check_the_line_that_is_printed(said: str, url: str, key: str) -> None:
    """As a new user sends it."""
    (body,) = re.findall(r"^  -d '(.*)'$", said, re.M)
    headers = dict(re.findall(r"-H '(\S+): (.*?)'", said))
    assert headers["Authorization"] == f"Bearer {key}"
    done = httpx.post(f"{url}/v1/chat/completions", content=body, headers=headers, timeout=PATIENCE_S)
    assert done.status_code == 200, done.text
    *chunks, end = re.findall(r"^data: (.+)$", done.text, re.M)
    assert end == "[DONE]"
    deltas = (choice["delta"] for chunk in chunks for choice in json.loads(chunk)["choices"])
    assert "Paris" in "".join(delta.get("content") or "" for delta in deltas)


def check_a_client(url: str, key: str) -> None:
    client = OpenAI(base_url=f"{url}/v1", api_key=key, timeout=PATIENCE_S)
    assert [model.id for model in client.models.list()] == [MODEL]
    whole = answer(url, key)
    assert "Paris" in whole
    stream = client.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens <= 12
    with pytest.raises(AuthenticationError):
        answer(url, key[:-1] + ("0" if key[-1] != "0" else "1"))


def check_what_runs(home: Path) -> set[str]:
    """That it is what the plan wants, whoever is asked; the names of the nodes."""
    (status,), views = command(home, "status")["fleets"], command(home, "instances")
    with open_database(data_dir=home / "postgres") as database:
        plan = PostgresPlans(database).load(status["plan"])
        assert PostgresProjects(database).load("medley-up").fleets == 1
    wanted = placement(plan)
    nodes = [node for view in views for node in view["nodes"]]
    seen = [(n["config"], n["first_layer"], n["last_layer"], n["weight"], n["kv_blocks"]) for n in nodes]
    assert sorted(seen) == wanted
    stages = [flags(line) for line in running_in(home).values() if "agents.stage" in line]
    run = [(int(s["--first-layer"]), int(s["--layers"]), int(s["--kv-blocks"])) for s in stages]
    assert sorted(run) == sorted((first, last - first + 1, blocks) for _, first, last, _, blocks in wanted)
    assert len({last - first for _, first, last, _, _ in wanted}) > 1, "stages are to be uneven"
    (model,) = status["models"]
    assert all((leg["planned"], leg["ready"]) == (1, 1) for leg in model["legs"])
    assert {leg["leg"] for leg in model["legs"]} == {"prefill", "decode"}
    assert model["requests"] >= 2
    assert 0 < model["ttft_ms"]["p50"] < 60_000
    assert {view["state"] for view in views} == {"ready"}
    return {node["name"] for node in nodes}


def control_groups(home: Path) -> list[Path]:
    """Of the nodes that run now."""
    records = (json.loads(file.read_bytes()) for file in (home / "up" / "local-cloud" / "nodes").glob("*.json"))
    return [Path(group) for record in records for group in record["confinement"]["groups"]]


def test_one_command_serves_survives_its_death_and_leaves_nothing_behind(up_place: Path) -> None:
    first = start(up_place)
    url, key = first.until_ready()
    assert "built profile" in first.said
    check_a_client(url, key)
    wait_until(lambda: "-d " in first.said)
    check_the_line_that_is_printed(first.said, url, key)
    nodes = check_what_runs(up_place)
    acts = [event for event in command(up_place, "audit") if event["actor"].startswith("cli:")]
    assert [event["kind"] for event in acts] == ["fleet.created", "plan.accepted", "token.created"]
    other = start(up_place)
    assert other.process.wait(PATIENCE_S) == 1
    assert "runs already in" in other.said
    assert len(other.said.splitlines()) == 1

    # It is killed: all is served without it. The next one takes over what runs.
    first.end(signal.SIGKILL)
    assert "Paris" in answer(url, key)
    second = start(up_place)
    assert second.until_ready() == (url, key)
    assert "built profile" not in second.said
    assert "requested ->" not in second.said
    assert check_what_runs(up_place) == nodes
    assert "Paris" in answer(url, key)

    # Its database server is killed: all is served without it, and it is started again.
    psutil.Process(PostgresCluster.of(up_place / "postgres").address().pid).kill()
    assert "Paris" in answer(url, key)
    second.until("database   the embedded PostgreSQL had ended; it was started again")
    wait_until(lambda: bool(command(up_place, "audit", "--kind", "database.restarted")))  # it is said first
    assert len(command(up_place, "audit", "--kind", "database.restarted")) == 1
    assert check_what_runs(up_place) == nodes

    groups = control_groups(up_place)
    assert second.end(signal.SIGINT) == 0
    assert "down       nothing runs any more" in second.said
    assert "Traceback" not in first.said + second.said + (up_place / "up.log").read_text()
    wait_until(lambda: running_in(up_place) == {})
    assert [group for group in groups if group.exists()] == []
    assert list((up_place / "up" / "nodes").iterdir()) == []
    ends = [s["reason"] for s in command(up_place, "events") if s["to_state"] == "terminating"]
    assert ends == ["no request is left"] * 2
    private = [path for path in (up_place / "up").iterdir() if path.name in ("api.key", "control.key", "gateway.key")]
    assert [path.stat().st_mode & 0o077 for path in private] == [0, 0, 0]


def test_what_it_has_measured_once_fits_what_the_fit_has_not_seen(
    up_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = read_world(up_home / "spec.yaml")
    assert evidence_of(world.recipe) == "estimated"
    assert with_known_profiles(world, tmp_path).recipe.profiles == ()
    measured = ensure_profiles(world, up_home, lambda *_: None, "2026-11-21T18:00:00+00:00")
    assert [p.config for p in measured.recipe.profiles] == ["lesser:1/n10", "greater:1/n10"]
    assert evidence_of(measured.recipe) == "measured"
    for profile in measured.recipe.profiles:
        assert profile.errors.rows > 5
        assert profile.errors.median < SANE
    # A whole step of many rows: what noise puts on one of its terms, it takes off another.
    terms = step_terms(NodeStep(*(np.array(value) for value in (30.0, 500.0, 250.0, 8.0, 300.0))), head=True)
    slow, fast = (sum(p.step_terms_s[name] * float(n) for name, n in terms.items()) for p in measured.recipe.profiles)
    assert min(slow, fast) > 0  # whichever was measured while the machine did more of other things
    assert cost_models_of(measured.recipe)["torch"].fingerprint != cost_models_of(world.recipe)["torch"].fingerprint

    def never(*_: object) -> None:
        raise AssertionError("it was measured before")

    monkeypatch.setattr("control.planning.local_profiles.sweep", never)
    assert ensure_profiles(world, up_home, lambda *_: None, "").recipe.profiles == measured.recipe.profiles
    assert with_known_profiles(world, up_home).recipe.profiles == measured.recipe.profiles
    # Another share of the machine is another subject.
    (tmp_path / "fleet.yaml").write_text(SPEC.replace("cpu_cores: 0.5", "cpu_cores: 0.6"))
    found = with_known_profiles(read_world(tmp_path / "fleet.yaml"), up_home).recipe
    assert [p.config for p in found.profiles] == ["greater:1/n10"]
    assert evidence_of(found) == f"measured, but estimated for {MODEL} on lesser:1/n10"


def test_a_port_that_is_taken_ends_it_and_leaves_nothing(up_place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        failed = start(up_place, "--port", str(taken.getsockname()[1]))
        assert failed.process.wait(PATIENCE_S) == 1
    last = failed.said.splitlines()[-1]
    assert last.startswith("medley: error: the gateway does not start: gateway: ")
    assert "in use" in last
    wait_until(lambda: running_in(up_place) == {})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-f", "{tmp}/nowhere.yaml"], "nowhere.yaml"),
        (["-f", "{tmp}/broken.yaml"], "broken.yaml"),
        (["-f", str(EXAMPLES / "coral-core.yaml")], "`medley up` runs the local cloud only"),
        (["--database-url", "postgresql://u:secret@127.0.0.1:1/d"], "u:***@127.0.0.1:1/d does not answer"),
        (["--port", "65536"], "65536"),
    ],
    ids=["no spec", "no yaml", "no local cloud", "no database", "no port"],
)
def test_what_it_cannot_do_is_one_line(medley: Run, tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "broken.yaml").write_text("models: [")
    failed = medley("up", *(each.format(tmp=tmp_path) for each in arguments))
    assert failed.returncode == 1
    assert words in re.sub(r"[│\s]+", " ", failed.stderr)
    errors = [line for line in failed.stderr.splitlines() if line.startswith("medley: error")]
    assert len(errors) == (0 if "--port" in arguments else 1)
    assert "unexpected" not in failed.stderr
    assert "secret" not in failed.stderr


def test_a_home_that_cannot_be_one_is_named(medley: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/medley")):
        failed = medley("up", MEDLEY_HOME=str(home))
        assert failed.returncode == 1
        assert failed.stderr.startswith("medley: error: ")
        assert str(home) in failed.stderr
        assert len(failed.stderr.splitlines()) == 1
