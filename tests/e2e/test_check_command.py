"""`medley check` finds every lie in a plan's file, says which, and exits with 1."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Run
from tests.e2e.hand_made import hand_made

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="session")
def sound(medley: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plan.json and snapshot.json."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "made.json").write_text(json.dumps(hand_made()))
    outputs = "--output", folder / "plan.json", "--save-snapshot", folder / "snapshot.json"
    done = medley("plan", "--snapshot", folder / "made.json", *outputs)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_sound_plan_holds_and_its_templates_are_those_of_the_library(medley: Run, sound: Path) -> None:
    done = medley("check", sound / "plan.json", sound / "snapshot.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "templates, price, supply, flows and covered demand hold" in done.stdout


def price(plan: dict[str, Any]) -> None:
    plan["offers"][0]["usd_per_hour"] /= 2


def rent(plan: dict[str, Any]) -> None:
    plan["rent_usd_per_hour"] -= 1


def count(plan: dict[str, Any]) -> None:
    plan["instances"][0]["count"] += 1


def capacity(plan: dict[str, Any]) -> None:
    plan["instances"][0]["units_per_s"]["chat/serve"] *= 2


def nodes(plan: dict[str, Any]) -> None:
    plan["instances"][0]["nodes"]["L4:1/n25"] = 1


def template(plan: dict[str, Any]) -> None:
    plan["instances"][0]["template_id"] = "ab" * 16


def supply(plan: dict[str, Any]) -> None:
    plan["offers"][0]["nodes"] = 11


def offer(plan: dict[str, Any]) -> None:
    plan["offers"][0]["offer"] = "aws/z/other/on-demand"


def flow(plan: dict[str, Any]) -> None:
    plan["flows"][0]["requests_per_s"] /= 2


def unmet(plan: dict[str, Any]) -> None:
    plan["unmet"]["chat/any"] = 1.0


def gap(plan: dict[str, Any]) -> None:
    plan["gap"] = 0.5


def snapshot(plan: dict[str, Any]) -> None:
    plan["snapshot_version"] = "cd" * 16


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (price, "price at offers[aws/z/g6/on-demand].usd_per_hour: expected 1.0, found 0.5"),
        (rent, "rent at rent_usd_per_hour: expected 4.0 (Σ nodes · price of the offers), found 3.0"),
        (count, "node_accounting at L4:1/n25 aws/z on-demand: expected 6 nodes"),
        (capacity, "expected a mixture of {'chat/serve': 9.0, 'code/serve': 1.0} or {'code/serve': 7.0}, found"),
        (nodes, "template at "),
        (template, "expected a template of the library, found none of that id"),
        (supply, "supply at offers[aws/z/g6/on-demand]: expected 0 to 10 nodes (0 held), found 11"),
        (offer, "expected one entry for an offer of the snapshot, found unknown or repeated"),
        (flow, "demand at chat/any: expected 12.0 requests/s = flows + unmet, found 6.0 + 0.0"),
        (unmet, "demand at chat/any: expected 12.0 requests/s = flows + unmet, found 12.0 + 1.0"),
        (gap, "gap at gap: expected"),
        (snapshot, "version at snapshot_version: expected"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_every_lie_is_found_and_named(medley: Run, sound: Path, tmp_path: Path, lie: Change, said: str) -> None:
    plan = json.loads((sound / "plan.json").read_text())
    lie(plan)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = medley("check", tmp_path / "plan.json", sound / "snapshot.json")
    assert done.returncode == 1
    assert said in done.stdout
    assert "not hold" in done.stdout.splitlines()[-1]


def test_programs_read_what_does_not_hold(medley: Run, sound: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text((sound / "plan.json").read_text().replace('"gap": 0.0', '"gap": 0.5'))
    document = json.loads(medley("check", tmp_path / "plan.json", sound / "snapshot.json", "-o", "json").stdout)
    assert (document["holds"], document["templates_checked"]) == (False, True)
    assert document["violations"][0]["rule"] == "gap"
    assert {"where", "expected", "found"} <= document["violations"][0].keys()


def test_a_snapshot_edited_to_match_a_plan_is_refused(medley: Run, sound: Path, tmp_path: Path) -> None:
    edited = (sound / "snapshot.json").read_text().replace('"usd_per_hour":1.0', '"usd_per_hour":0.5')
    (tmp_path / "snapshot.json").write_text(edited)
    done = medley("check", sound / "plan.json", tmp_path / "snapshot.json")
    assert done.returncode == 1
    assert "snapshot.json: was edited" in done.stderr


def test_without_a_database_all_but_the_templates_is_checked(medley: Run, sound: Path) -> None:
    url = "postgresql://medley@127.0.0.1:1/medley"
    done = medley("check", sound / "plan.json", sound / "snapshot.json", MEDLEY_DATABASE_URL=url)
    assert done.returncode == 0
    assert "price, supply, flows and covered demand hold" in done.stdout
    assert "capacities are taken from the plan: the database" in done.stderr


def test_what_is_no_plan_is_said_to_be_none(medley: Run, sound: Path) -> None:
    done = medley("check", sound / "snapshot.json", sound / "plan.json")
    assert done.returncode == 1
    assert "snapshot.json: is not a plan" in done.stderr
    assert "none.json: cannot be read" in medley("check", "none.json", sound / "snapshot.json").stderr
