"""Bad input ends in one clear line, exit code 1, no traceback and no plan."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import CORE, EXAMPLES, Run
from tests.e2e.hand_made import hand_made


def refuse(medley: Run, *arguments: str | Path, **changes: str) -> str:
    done = medley("plan", *arguments, **changes)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert "medley: error: " in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("model: phi-4-14b", "model: phi4-14b", "unknown model 'phi4-14b'; did you mean 'phi-4-14b'?"),
        ("L40S, L4,", "L40SX, L4,", "unknown GPU 'L40SX'; did you mean 'L40S'?"),
        ("us-east-2", "us-east-22", "unknown region 'us-east-22' of aws; did you mean 'us-east-2'?"),
        ("demand: {", "demnd: {", "unknown key 'models[0].demnd'; did you mean 'demand'?"),
        ("requests_per_s: 10", "requests_per_s: 0", "demand is 0"),
        ("requests_per_s: 10", "requests_per_s: -3", "demand must be above 0, is -3"),
        ("requests_per_s: 10", "requests_per_s: .nan", "must be a finite number"),
        ("model: qwen3-32b", "name: mine\n    model: no/config.json", "cannot be read"),
        ("workload: azure-code", "workload: no/trace.csv", "cannot be read"),
    ],
)
def test_a_spec_with_a_mistake_names_file_line_and_remedy(
    medley: Run, tmp_path: Path, old: str, new: str, expected: str
) -> None:
    spec = tmp_path / "fleet.yaml"
    changed = CORE.replace(old, new, 1)
    spec.write_text(changed)
    line = next(i for i, text in enumerate(changed.splitlines(), 1) if text not in CORE.splitlines())
    said = refuse(medley, "-f", spec)
    assert expected in said
    assert f"{spec}:{line}" in said or f"{spec}:{line + 1}" in said


@pytest.mark.parametrize(("price", "expected"), [("-1", "greater than or equal to 0"), (".nan", "finite"), ("0", "0")])
def test_an_impossible_price_in_an_offers_file_is_refused(
    medley: Run, tmp_path: Path, price: str, expected: str
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "apiVersion: medley/v1\nkind: Offers\noffers:\n  - {cloud: mine, region: hall, instance_type: box, "
        f"node_config: 'L4:1/n10', market: on-demand, usd_per_hour: {price}}}\n"
    )
    spec = tmp_path / "fleet.yaml"
    spec.write_text(CORE.replace("  by_region: true", "  files: [mine.yaml]"))
    said = refuse(medley, "-f", spec)
    assert "mine.yaml:4" in said
    assert expected in said


def test_missing_empty_and_huge_files_are_refused(medley: Run, tmp_path: Path) -> None:
    assert "cannot be read" in refuse(medley, "-f", tmp_path / "none.yaml")
    (tmp_path / "empty.yaml").write_text("")
    assert "is empty" in refuse(medley, "-f", tmp_path / "empty.yaml")
    (tmp_path / "huge.yaml").write_text("#" * (1 << 21))
    assert "is larger than" in refuse(medley, "-f", tmp_path / "huge.yaml")


def test_what_is_no_spec_file_is_said_to_be_none(medley: Run, tmp_path: Path) -> None:
    assert "Is a directory" in refuse(medley, "-f", tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    assert "latin.yaml: is not UTF-8 text (byte 9)" in refuse(medley, "-f", tmp_path / "latin.yaml")
    (tmp_path / "broken.yaml").write_text("kind: Fleet\nmodels: [{\n")
    assert "broken.yaml:3: is not valid YAML" in refuse(medley, "-f", tmp_path / "broken.yaml")
    (tmp_path / "snapshot.yaml").write_text(json.dumps(hand_made()))
    assert "give it with --snapshot instead of -f" in refuse(medley, "-f", tmp_path / "snapshot.yaml")
    assert "a spec file is given with -f" in refuse(medley, "--snapshot", EXAMPLES / "coral-core.yaml")


@pytest.mark.parametrize("option", ["--plot", "--save-snapshot", "--output"])
def test_a_file_that_cannot_be_written_is_refused_before_any_work(medley: Run, tmp_path: Path, option: str) -> None:
    nowhere = tmp_path / "nowhere" / "file"
    said = refuse(medley, "-f", EXAMPLES / "coral-core.yaml", option, nowhere)
    assert f"{nowhere}: cannot be written: there is no folder" in said


def test_arguments_that_make_no_sense_exit_with_1(medley: Run) -> None:
    assert "either -f SPEC or --snapshot" in refuse(medley)
    for arguments, said in (
        (("plan", "--no-such-option"), "--no-such-option"),
        (("plan", "-o", "xml"), "is not one of 'table', 'json', 'yaml'"),
        (("plann",), "Did you mean 'plan'"),
    ):
        unknown = medley(*arguments)
        assert unknown.returncode == 1
        assert said in unknown.stderr


def test_a_database_that_is_down_is_named_without_its_password(medley: Run) -> None:
    url = "postgresql://medley:secret@127.0.0.1:1/medley"
    said = refuse(medley, "-f", EXAMPLES / "coral-core.yaml", MEDLEY_DATABASE_URL=url)
    assert "127.0.0.1:1" in said
    assert "secret" not in said


def test_a_hand_made_snapshot_is_planned_replayed_and_checked(medley: Run, tmp_path: Path) -> None:
    made, recorded, plan = (tmp_path / name for name in ("made.json", "recorded.json", "plan.json"))
    made.write_text(json.dumps(hand_made()))
    first = medley("plan", "--snapshot", made, "-o", "json", "--save-snapshot", recorded, "--output", plan)
    assert first.returncode == 0, first.stderr
    document = json.loads(plan.read_text())
    # 12 chat need 4/3 of an instance on the first point alone, which gives 4/3 code; 2 instances leave 2/3 of one.
    assert document["instances"][0]["count"] == 2
    assert document["usd_per_hour"] == pytest.approx(4.0)
    assert document["unmet"] == {}
    again = medley("plan", "--snapshot", recorded, "-o", "json")
    assert json.loads(again.stdout)["id"] == document["id"]
    assert medley("check", plan, recorded).returncode == 0


def test_templates_may_come_in_a_file_of_their_own(medley: Run, tmp_path: Path) -> None:
    bare, templates = hand_made(), tmp_path / "templates.json"
    templates.write_text(json.dumps(bare.pop("recipe")["listed"]))
    (tmp_path / "bare.json").write_text(json.dumps(bare))
    assert "--templates" in refuse(medley, "--snapshot", tmp_path / "bare.json")
    done = medley("plan", "--snapshot", tmp_path / "bare.json", "--templates", templates, "-o", "json")
    assert json.loads(done.stdout)["usd_per_hour"] == pytest.approx(4.0)


def test_a_snapshot_that_was_truncated_or_edited_is_refused(medley: Run, tmp_path: Path) -> None:
    made, recorded = tmp_path / "made.json", tmp_path / "recorded.json"
    made.write_text(json.dumps(hand_made()))
    assert medley("plan", "--snapshot", made, "--save-snapshot", recorded).returncode == 0
    whole = recorded.read_text()
    recorded.write_text(whole[: len(whole) // 2])
    assert "truncated" in refuse(medley, "--snapshot", recorded)
    recorded.write_text(whole.replace('"usd_per_hour":1.0', '"usd_per_hour":0.5'))
    assert "was edited" in refuse(medley, "--snapshot", recorded)
    recorded.write_text(whole.replace("medley/snapshot/v1", "medley/snapshot/v9"))
    assert "this release reads 'medley/snapshot/v1'" in refuse(medley, "--snapshot", recorded)
    recorded.write_text(whole.replace('"chat/serve":9.0', '"chat/serve":90.0'))
    assert "was recorded with library" in refuse(medley, "--snapshot", recorded)


def test_unmet_demand_is_a_result_and_loud(medley: Run, tmp_path: Path) -> None:
    short = hand_made()
    short["snapshot"]["offers"][0]["available_count"] = 2
    made = tmp_path / "short.json"
    made.write_text(json.dumps(short))
    done = medley("plan", "--snapshot", made)
    assert done.returncode == 0
    assert "DEMAND IS NOT MET" in done.stdout
    assert "demand is not met" in done.stderr
    assert medley("plan", "--snapshot", made, "--detailed-exitcode", "-o", "json").returncode == 2


def test_a_negative_price_in_a_snapshot_is_refused(medley: Run, tmp_path: Path) -> None:
    made = tmp_path / "made.json"
    wrong = hand_made()
    wrong["snapshot"]["offers"][0]["usd_per_hour"] = -1.0
    made.write_text(json.dumps(wrong))
    assert "aws/z/g6/on-demand" in refuse(medley, "--snapshot", made)
