"""The local example on measured profiles: prefill and decode apart, each cut unevenly over unequal nodes."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from control.cli.main import app
from control.cloud.local.kinds import DEFAULT_MACHINES
from control.db.budgets import PostgresBudgets, Scope
from control.db.database import open_database
from control.profiles.store import ProfileStore
from policies.budget import Budget
from templates_lib.models.catalogue import load_models
from tests.control.profiles.given import stored

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "local.yaml"
OBJECTIVES = "ttft_ms: 6000, tpot_ms: 600"
OF_EXAMPLE = "ttft_ms: 20000, tpot_ms: 1500"
"""Of the example."""
MODEL = load_models()["smollm2-135m-instruct"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path / "home"))
    for machine in DEFAULT_MACHINES:
        ProfileStore(tmp_path / "home" / "profiles").put(stored(machine, MODEL))
    return tmp_path / "home"


def planned(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["plan", *arguments, "--no-baselines", "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.usefixtures("home")
def test_the_example_keeps_its_objectives_for_all_that_comes(database_url: str) -> None:
    plan = planned("-f", str(EXAMPLE), "--database-url", database_url)
    assert plan["unmet"] == {}
    attained = plan["attainment"]
    assert set(attained) == {f"{MODEL.id}/prefill", f"{MODEL.id}/decode"}
    assert all(each["percentile"] == 95 and each["share"] >= 0.95 for each in attained.values())


@pytest.mark.usefixtures("home")
def test_both_phases_are_cut_unevenly_over_unequal_nodes(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = str(tmp_path / "now.json")
    spec = promising(tmp_path, f"{OBJECTIVES}, keep: throughput")
    spec.write_text(spec.read_text().replace("requests_per_s: 0.03", "requests_per_s: 0.1"))
    plan = planned("-f", str(spec), "--database-url", database_url, "--save-snapshot", snapshot)
    assert plan["unmet"] == {}
    assert (plan["basis"]["cost_model"], plan["basis"]["notes"]) == ("measured", [])
    instances = plan["instances"]
    assert sorted(i["phase"] for i in instances) == ["decode", "prefill"]
    for instance in instances:
        layers = [stage["last_layer"] - stage["first_layer"] + 1 for stage in instance["stages"]]
        assert sum(layers) == MODEL.layers
        assert len(layers) >= 2
        assert len(set(layers)) > 1
        assert len(instance["nodes"]) > 1
    # The snapshot carries the profiles: it is planned again alike where nothing was ever measured.
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path / "elsewhere"))
    again = planned("--snapshot", snapshot, "--database-url", database_url)
    assert again["instances"] == instances
    assert again["basis"]["cost_model"] == "measured"


@pytest.mark.usefixtures("home")
def test_a_plan_costs_no_more_than_the_budgets_leave_as_in_the_reconcile_loop(
    database_url: str, tmp_path: Path
) -> None:
    spec = promising(tmp_path, f"{OF_EXAMPLE}, keep: throughput")
    arguments = ("-f", str(spec), "--database-url", database_url)
    free = planned(*arguments)
    with open_database(database_url) as database:
        budget = Budget(usd_per_hour=free["usd_per_hour"] / 2)
        PostgresBudgets(database).put(Scope.PROJECT, "default", budget, datetime.now(UTC))
    plan = planned(*arguments)
    assert plan["usd_per_hour"] <= free["usd_per_hour"] / 2
    assert plan["unmet"]
    assert "budget of project default" in plan["basis"]["notes"][0]


def promising(folder: Path, objectives: str) -> Path:
    """The example with other objectives."""
    spec = folder / "other.yaml"
    spec.write_text(EXAMPLE.read_text().replace(OF_EXAMPLE, objectives))
    return spec


def test_without_profiles_the_plan_says_that_it_rests_on_an_estimate(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    spec = promising(tmp_path, "ttft_ms: 60000, tpot_ms: 6000, keep: throughput")
    plan = planned("-f", str(spec), "--database-url", database_url)
    assert plan["basis"]["cost_model"] == "estimated"
    assert "`medley profile run -f SPEC` measures them" in plan["basis"]["notes"][-1]


def test_an_objective_that_the_estimate_does_not_meet_may_be_met_by_what_is_measured(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    spec = promising(tmp_path, "ttft_ms: 6000, tpot_ms: 60")
    result = CliRunner().invoke(app, ["plan", "-f", str(spec), "--database-url", database_url])
    assert result.exit_code == 1
    assert "no configuration meets its objective for decode" in result.stderr
    assert "step times of this machine's nodes are estimated: `medley profile run -f SPEC`" in result.stderr


def test_of_three_kinds_the_unmeasured_one_is_named(home: Path, database_url: str, tmp_path: Path) -> None:
    missing = stored(DEFAULT_MACHINES[0], MODEL)
    (home / "profiles" / f"{missing.profile.subject}.json").unlink()
    other = replace(missing, profile=replace(missing.profile, subject="of-another-machine"))
    ProfileStore(home / "profiles").put(other)
    spec = promising(tmp_path, f"{OF_EXAMPLE}, keep: throughput")
    plan = planned("-f", str(spec), "--database-url", database_url)
    told = plan["basis"]["cost_model"]
    assert told == "measured, but estimated for smollm2-135m-instruct on local-small:1/n10"
