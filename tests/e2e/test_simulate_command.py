"""`medley simulate`: a scenario through the real command, and what it says of one that it cannot simulate."""

import csv
import json
from pathlib import Path

import pytest

from tests.e2e.conftest import EXAMPLES, Run

SCENARIO = (EXAMPLES / "simulate" / "spot-day.yaml").read_text()


def written(folder: Path, old: str = "", new: str = "") -> Path:
    """The example, of 20 minutes, elsewhere."""
    (folder / "trace.csv").write_text("arrival_s,input_tokens,output_tokens\n0,9,9\n60,9,9\n")
    text = SCENARIO.replace("minutes: 1440", "minutes: 20")
    for name in ("chat-fleet.yaml", "spot-prices-2024-08-02.csv", "spot-stock-2024-08-02.csv"):
        text = text.replace(name, str(EXAMPLES / "simulate" / name))
    assert old in text
    path = folder / "scenario.yaml"
    path.write_text(text.replace(old, new))
    return path


def test_a_scenario_becomes_a_summary_and_a_folder_of_results(medley: Run, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    (tmp_path / "lengths.csv").write_text("input_tokens,output_tokens\n900,200\n0,9\n1100,240\n")
    path = written(tmp_path, "peak_hour: 15", "peak_hour: 15\n    workload: lengths.csv")
    done = medley("simulate", "-f", path, "--folder", folder, "--no-plots", "-o", "json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary == json.loads((folder / "summary.json").read_text())
    (model,) = summary["models"]
    assert model["requests"] == sum(model["fates"].values()) > 1500
    assert model["within_share"] > 0.5
    with (folder / "nodes.csv").open() as file:
        paid = sum(float(row["spent_usd"]) for row in csv.DictReader(file))
    assert summary["spent_usd"] == pytest.approx(paid)
    assert any(
        each.startswith("lengths.csv: 1 of 3 rows are left out; line 3: input_tokens is 0")
        for each in summary["facts"]["notes"]
    )
    assert "control plane: 100 %" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("model: gpt-oss-20b", "model: gpt-oss-120b", "traffic[0].model: 'gpt-oss-120b' is not in fleet chat"),
        ("spot-prices-2024-08-02.csv", "no-prices.csv", "no-prices.csv: cannot be read"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_its_line(
    medley: Run, tmp_path: Path, old: str, new: str, said: str
) -> None:
    done = medley("simulate", "-f", written(tmp_path, old, new), "--folder", tmp_path / "results")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"{tmp_path / 'scenario.yaml'}:" in done.stderr
    assert said in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(medley: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = medley("simulate", "-f", written(tmp_path), "--folder", tmp_path / "file" / "results", "--no-plots")
    assert done.returncode == 1
    assert "is a file" in done.stderr


def test_the_example_of_an_app_of_several_components_is_simulated(medley: Run, tmp_path: Path) -> None:
    (tmp_path / "assistant.json").write_bytes((EXAMPLES / "simulate" / "assistant.json").read_bytes())
    text = (EXAMPLES / "simulate" / "assistant.yaml").read_text().replace("minutes: 30", "minutes: 5")
    (tmp_path / "scenario.yaml").write_text(text)
    asked = ("simulate", "-f", tmp_path / "scenario.yaml", "--folder", tmp_path / "results", "--no-plots")
    done = medley(*asked, "-o", "json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [model["name"] for model in summary["models"]] == ["assistant", "assistant-picture", "assistant-spoken"]
    assert summary["within_share"] > 0.9
    shown = medley(*asked).stdout
    assert "answer p50" in shown
    assert "TTFT" not in shown

    # A plan that was printed is held to, where it was made on this snapshot.
    plan = medley("plan", "--snapshot", tmp_path / "assistant.json", "-o", "json")
    assert plan.returncode == 0, plan.stderr
    (tmp_path / "plan.json").write_text(plan.stdout)
    (tmp_path / "scenario.yaml").write_text(f"{text}strategy: fixed\nplan: plan.json\n")
    held = medley(*asked, "-o", "json")
    assert held.returncode == 0, held.stderr
    assert json.loads(held.stdout)["fingerprints"]["served"] == summary["fingerprints"]["served"]
