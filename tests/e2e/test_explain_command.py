"""`medley explain` and `medley plans`: a plan can be asked about at once, or later by its id."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Run
from tests.e2e.hand_made import hand_made


def scarce() -> dict[str, Any]:
    made = hand_made()
    made["snapshot"]["offers"][0]["available_count"] = 2
    return made


@pytest.fixture(scope="session")
def planned(medley: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plan and the snapshot of a market with too few nodes."""
    folder = tmp_path_factory.mktemp("scarce")
    (folder / "made.json").write_text(json.dumps(scarce()))
    outputs = "--output", folder / "plan.json", "--save-snapshot", folder / "snapshot.json"
    assert medley("plan", "--snapshot", folder / "made.json", *outputs).returncode == 0
    return folder


def plan_id(folder: Path) -> str:
    found: str = json.loads((folder / "plan.json").read_text())["id"]
    return found


def test_what_is_missing_and_what_binds_is_said(medley: Run, planned: Path) -> None:
    done = medley("explain", "--snapshot", planned / "snapshot.json")
    assert done.returncode == 0, done.stderr
    for part in (
        "for pair: 2.00 $/h, partial",
        "with more nodes all demand is served; the cheapest such fleet costs 4.00 $/h",
        "it takes 2 more of L4:1/n25 in aws/z (g6, on-demand) than there are",
        "all 2 nodes of L4:1/n25 in aws/z (g6, on-demand) are used",
        "2 of 2 used",
        "(re-solved)",
        "without 2 x L4:1/n25",
    ):
        assert part in done.stdout


def test_a_plan_is_explained_alike_from_its_files_and_from_the_database(medley: Run, planned: Path) -> None:
    plan, snapshot = planned / "plan.json", planned / "snapshot.json"
    ways = ((plan, "--snapshot", snapshot), (plan,), (plan_id(planned)[:10],), ("--snapshot", snapshot))
    said = [json.loads(medley("explain", *way, "-o", "json").stdout) for way in ways]
    assert all(document == said[0] for document in said)
    assert said[0]["plan"] == plan_id(planned)
    assert said[0]["shortage"]["nodes"] == {"aws/z/g6/on-demand": 2}
    assert said[0]["one_more_node"][0]["verified"] is True


def test_the_plan_itself_says_what_binds(planned: Path) -> None:
    reasons = json.loads((planned / "plan.json").read_text())["reasons"]
    assert {"unmet", "supply"} <= {r["kind"] for r in reasons}


def test_kept_plans_are_listed_and_shown(medley: Run, planned: Path) -> None:
    listed = json.loads(medley("plans", "list", "-o", "json").stdout)
    mine = next(p for p in listed if p["id"] == plan_id(planned))
    assert (mine["name"], mine["policy"], mine["usd_per_hour"]) == ("pair", "medley", 2.0)
    assert "pair" in medley("plans", "list", "--limit", "3").stdout
    shown = json.loads(medley("plans", "show", plan_id(planned)[:10], "-o", "json").stdout)
    assert shown["usd_per_hour"] == 2.0
    assert shown["instances"][0]["template_id"]
    assert "DEMAND IS NOT MET" in medley("plans", "show", plan_id(planned)).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either -f SPEC or --snapshot FILE"),
        (("0123456789",), "plan '0123456789' is not stored"),
        (("no.json",), "no.json: cannot be read"),
        (("abc", "-f", "x.yaml"), "give either PLAN or -f SPEC"),
    ],
)
def test_what_cannot_be_explained_is_said(medley: Run, planned: Path, arguments: tuple[str, ...], said: str) -> None:
    done = medley("explain", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_a_plan_and_a_snapshot_that_do_not_belong_together_are_refused(
    medley: Run, planned: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text(json.dumps(hand_made()))
    done = medley("explain", planned / "plan.json", "--snapshot", tmp_path / "other.json")
    assert done.returncode == 1
    assert "but the plan was made on" in done.stderr
