"""`medley dev`, `workflows`, `runs` and `signal`, over the example that ships."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from control.cli.main import app
from control.db.database import open_database
from control.runs.run_state import RunState
from tests.control.orchestrator.world import World

EXAMPLE = Path(__file__).parents[3] / "examples" / "workflows" / "report.py"
TEXTS = ["one two two", "three"]


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with open_database(module_database_url, connections=40) as database:
        made = World(database)
        with made.orchestrator():
            yield made


def medley(world: World, *arguments: str, exit_code: int = 0) -> str:
    url = world.database.engine.url.render_as_string(hide_password=False)
    result = CliRunner().invoke(app, [*arguments, "--database-url", url])
    assert result.exit_code == exit_code, result.output
    return result.output if exit_code else result.stdout


def given(folder: Path) -> str:
    return json.dumps({"texts": TEXTS, "file": str(folder / "filed")})


def test_the_example_runs_in_one_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from control.cli.main import run; run()", "dev", f"{EXAMPLE}:report"]
    ran = subprocess.run(
        [*command, "-a", given(tmp_path), "--signal", "approved=true"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout).startswith("filed as")
    assert json.loads(ran.stderr.removeprefix("emit: ")) == {"approve": "2 texts, 4 words"}
    assert (tmp_path / "filed").read_text().endswith("2 texts, 4 words\n")
    missing = subprocess.run([*command, "-a", given(tmp_path)], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "approved" in missing.stderr


def test_a_workflow_is_pushed_run_answered_and_looked_at(world: World, tmp_path: Path) -> None:
    assert "report" in medley(world, "workflows", "push", str(EXAMPLE), "--project", "p")
    (listed,) = json.loads(medley(world, "workflows", "list", "-o", "json"))
    assert (listed["workflow"], listed["max_usd"], listed["gives"]) == ("report", 0.05, "str")
    assert "texts" in medley(world, "workflows", "show", "report", "--project", "p")
    asked = ("workflows", "run", "report", "--project", "p", "-a", given(tmp_path), "--no-wait", "-o", "json")
    run = json.loads(medley(world, *asked))["id"]
    world.until(run, lambda run: run.state is RunState.WAITING)
    medley(world, "signal", run, "approved", "true")
    world.ended(run)
    shown: dict[str, Any] = json.loads(medley(world, "runs", "show", run, "-o", "json"))
    assert shown["answer"].startswith(f"filed as {run}/")
    assert shown["emitted"] == [{"approve": "2 texts, 4 words"}]
    assert [call["target"] for call in shown["calls"]] == ["Count", "Count", "", "approved", "File"]
    learned = json.loads(medley(world, "workflows", "show", "report", "--project", "p", "-o", "json"))["learned"]
    assert learned["calls_per_run"] == pytest.approx({"Count": 2.0, "File": 1.0})
    assert learned["follows"] == {"": {"Count": 1.0}, "Count": {"Count": 0.5, "File": 0.5}, "File": {"": 1.0}}
    assert "the beginning" in medley(world, "workflows", "show", "report", "--project", "p")
    assert run in medley(world, "runs", "list", "--state", "done")
    assert "filed as" in medley(world, "runs", "show", run)
    assert "done" in medley(world, "runs", "cancel", run)
    medley(world, "runs", "resume", run, exit_code=1)


def test_what_is_wrong_is_said_in_one_line(world: World, tmp_path: Path) -> None:
    odd = tmp_path / "odd.py"
    odd.write_text("import medley_sdk\n\n\n@medley_sdk.workflow\nasync def odd(it: complex) -> None: ...\n")
    said = medley(world, "workflows", "push", str(odd), exit_code=1)
    assert "parameter it" in said
    assert f"{odd}:4" in said
    assert "report" in medley(world, "workflows", "run", "reprot", "--project", "p", exit_code=1)
    assert "JSON" in medley(world, "signal", "r1", "approved", "yes", exit_code=1)
