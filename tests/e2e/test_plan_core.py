"""The core example through the real command, from an empty data directory."""

import json
import os
import signal
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import CORE as SPEC
from tests.e2e.conftest import EXAMPLES, MEDLEY, Run, environment

CORE = EXAMPLES / "coral-core.yaml"


@pytest.fixture(scope="session")
def planned(medley: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plan.json and snapshot.json of the core example."""
    folder = tmp_path_factory.mktemp("core")
    arguments = ("-o", "json", "--output", folder / "plan.json", "--save-snapshot", folder / "snapshot.json")
    done = medley("plan", "-f", CORE, *arguments)
    assert done.returncode == 0, done.stderr
    return folder


def document(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return read


def test_the_document_has_what_programs_rely_on(planned: Path) -> None:
    plan = document(planned)
    numbers = {"usd_per_hour", "init_usd", "traffic_usd_per_hour", "bound", "gap", "solve_s"}
    assert all(isinstance(plan[n], float) for n in numbers)
    assert plan["unmet"] == {}
    assert {"homo", "homo_joint", "cauchy"} == plan["baselines"].keys()
    for baseline in plan["baselines"].values():
        assert {"usd_per_hour", "unmet"} <= baseline.keys()
    expected = {"model", "phase", "zone", "market", "count", "nodes", "stages", "tokens_per_s", "usd_per_hour"}
    for instance in plan["instances"]:
        assert expected | {"template_id"} <= instance.keys()
        layers = [(s["first_layer"], s["last_layer"]) for s in instance["stages"]]
        assert layers[0][0] == 0
        assert all(b == a + 1 for (_, a), (b, _) in pairwise(layers))
    assert plan["flows"]
    assert plan["offers"]


def test_the_plan_is_cheaper_than_every_baseline_that_serves_the_demand(planned: Path) -> None:
    plan = document(planned)
    assert all(b["usd_per_hour"] >= plan["usd_per_hour"] * 0.999 for b in plan["baselines"].values() if not b["unmet"])


def test_a_replay_gives_the_same_plan_and_the_check_holds(medley: Run, planned: Path) -> None:
    replayed = medley("plan", "--snapshot", planned / "snapshot.json", "-o", "json")
    again, first = json.loads(replayed.stdout), document(planned)
    assert again["id"] == first["id"]
    timing = {"solve_s", "statistics"}
    assert {k: v for k, v in again.items() if k not in timing} == {k: v for k, v in first.items() if k not in timing}
    assert medley("check", planned / "plan.json", planned / "snapshot.json").returncode == 0


def test_a_fleet_from_nothing_changes_the_fleet(medley: Run, planned: Path) -> None:
    arguments = ("plan", "--snapshot", planned / "snapshot.json", "--no-baselines", "-o", "yaml")
    assert medley(*arguments).returncode == 0
    assert medley(*arguments, "--detailed-exitcode").returncode == 2


def test_a_running_fleet_that_is_as_planned_is_left_alone(medley: Run, planned: Path, tmp_path: Path) -> None:
    plan, recording = document(planned), json.loads((planned / "snapshot.json").read_text())
    offer_of = {(o["offer"].rsplit("/", 2)[0], o["node_config"]): o["offer"] for o in plan["offers"]}
    recording["snapshot"]["version"] = ""
    recording["snapshot"]["instances"] = [
        {
            "id": f"{i['template_id']}-{copy}", "template_id": i["template_id"], "zone": i["zone"],
            "market": i["market"], "state": "ready",
            "nodes": [{"id": f"{i['template_id']}-{copy}-{n}-{c}", "offer": offer_of[i["zone"], c]}
                      for c, count in i["nodes"].items() for n in range(count)],
        }
        for i in plan["instances"] for copy in range(i["count"])
    ]  # fmt: skip
    running = tmp_path / "running.json"
    running.write_text(json.dumps(recording))
    done = medley("plan", "--snapshot", running, "--no-baselines", "--detailed-exitcode", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["init_usd"] == pytest.approx(0.0)


def test_tables_and_chart(medley: Run, planned: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = medley("plan", "--snapshot", planned / "snapshot.json", "--plot", tmp_path / "chart.png")
    assert done.returncode == 0, done.stderr
    for part in ("qwen3-32b", "-63:", "All demand is met", "homo_joint", "The plan saves", "derived-L40Sx2"):
        assert part in done.stdout
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_the_library_is_counted_listed_and_shown(medley: Run, planned: Path) -> None:
    built = json.loads(medley("templates", "build", "-f", CORE, "-o", "json").stdout)
    assert built["sets"] >= built["templates"] >= built["kept"] > 0
    assert built["seconds"] > 0
    assert built["version"] == document(planned)["library_version"]
    listed = json.loads(medley("templates", "list", "-o", "json").stdout)
    assert built["version"] in {info["version"] for info in listed}
    assert "qwen3-32b/decode" in medley("templates", "show", built["version"]).stdout
    unknown = medley("templates", "show", built["version"][:-1] + "x")
    assert unknown.returncode == 1
    assert built["version"] in unknown.stderr


def test_other_commands_answer(medley: Run) -> None:
    for arguments, said in (("--help", "Plan the cheapest fleet"), ("version", "0.1")):  # as it is installed
        assert said in subprocess.run([MEDLEY, arguments], capture_output=True, text=True, check=True).stdout.strip()
    assert json.loads(medley("db", "status", "-o", "json").stdout)["revision"]
    offers = json.loads(medley("offers", "list", "-f", CORE, "-o", "json").stdout)
    assert {o["derived"] for o in offers} == {True, False}
    assert "unknown GPU" in medley("offers", "list", "--gpu", "L40X").stderr


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ttft_ms: 1600", "ttft_ms: 1", "qwen3-32b: no configuration meets its objective for prefill; nearest is"),
        ("tpot_ms: 30", "tpot_ms: 0.01", "gpt-oss-20b: no configuration meets its objective for decode; nearest is"),
        ("rho: 12", "rho: 0.5", "is larger than every node set"),
        ("rho: 12", "rho: 0.2", "phi-4-14b: no node is small enough: the smallest has 22"),
    ],
)
def test_what_no_template_can_serve_says_why(medley: Run, tmp_path: Path, old: str, new: str, expected: str) -> None:
    spec = tmp_path / "fleet.yaml"
    spec.write_text(SPEC.replace(old, new).replace("n_max: 6", "n_max: 2"))
    done = medley("plan", "-f", spec)
    assert done.returncode == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_build_resumes(medley: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = [MEDLEY, "templates", "build", "-f", str(CORE), "-o", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(home)) as process:
        assert process.stderr is not None
        # Two units at most are being built at once, so that of three finished ones one is stored.
        first = [process.stderr.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert all(line.startswith("built ") for line in first)
    assert process.returncode == 130, rest
    assert "run the same command again to go on" in rest
    assert "Traceback" not in rest
    again = medley("templates", "build", "-f", CORE, "-o", "json", MEDLEY_HOME=str(home))
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("built ") < 6, "what was stored is not built again"
    undisturbed = json.loads(medley("templates", "build", "-f", CORE, "-o", "json").stdout)
    resumed = json.loads(again.stdout)
    assert {k: resumed[k] for k in ("version", "sets", "templates", "kept")} == {
        k: undisturbed[k] for k in ("version", "sets", "templates", "kept")
    }
    assert os.listdir(home)
