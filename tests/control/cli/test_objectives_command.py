"""`medley objectives`: a curve as a table, a document and a picture, and what it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from control.cli.main import app
from tests.control.planning.worlds import KEEP_SPEC

MODEL = "gpt-oss-20b"
POINTS = ("--at", "15,3000", "--axis", "ttft", "--model", MODEL)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    file = tmp_path / "fleet.yaml"
    file.write_text(KEEP_SPEC.format(keep="throughput"))
    return file


def objectives(database_url: str, spec: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["objectives", "-f", str(spec), "--database-url", database_url, *arguments])


def test_a_curve_is_a_document_a_table_and_a_picture(database_url: str, spec: Path, tmp_path: Path) -> None:
    done = objectives(database_url, spec, *POINTS, "-o", "json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    (curve,) = document["curves"]
    assert (document["kind"], document["name"]) == ("medley/objectives", "chat")
    assert (curve["model"], curve["axis"], curve["unit"], curve["now"]) == (MODEL, "ttft", "ms", 1500)
    none, now, eased = curve["points"]
    assert [each["value"] for each in curve["points"]] == [15, 1500, 3000]
    assert none["usd_per_hour"] is None
    assert none["problem"]
    assert eased["usd_per_hour"] <= now["usd_per_hour"] == document["usd_per_hour"]
    picture = tmp_path / "cost.png"
    shown = objectives(database_url, spec, *POINTS, "--plot", str(picture))
    assert shown.exit_code == 0, shown.output
    assert f"{now['usd_per_hour']:,.2f}" in next(line for line in shown.stdout.splitlines() if "(now)" in line)
    assert none["problem"].split(";")[0] in shown.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_percentiles_are_looked_at_where_nobody_says_which(database_url: str, spec: Path) -> None:
    done = objectives(database_url, spec, "--axis", "percentile", "-o", "json")
    assert done.exit_code == 0, done.output
    (curve,) = json.loads(done.stdout)["curves"]
    assert [each["value"] for each in curve["points"]] == [99.9, 99.5, 99, 95, 90, 80, 50]
    usd = [each["usd_per_hour"] for each in curve["points"] if each["usd_per_hour"] is not None]
    assert usd == sorted(usd, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "gpt-oss-2b"), f"did you mean '{MODEL}'"),
        (("--axis", "tbt"), "valid: percentile, tpot, ttft"),
        (("--at", "0"), "more than 0"),
        (("--at", "1e8"), "at most 1e+07 ms"),
        (("--at", "nan"), "is no objective"),
        (("--at", "fast"), "give numbers with commas"),
        (("--at", ",".join(map(str, range(1, 22)))), "20 are the most"),
        (("--axis", "percentile", "--at", "49.9"), "from 50 to 99.9 %"),
        (("--axis", "percentile", "--at", "99.95"), "from 50 to 99.9 %"),
        (("--snapshot", "elsewhere.json"), "give either -f SPEC or --snapshot FILE"),
        (("--plot", "/nonexistent/cost.png"), "cannot be written"),
    ],
)
def test_what_it_cannot_show_is_said_with_what_to_do(
    database_url: str, spec: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = objectives(database_url, spec, *arguments)
    assert done.exit_code != 0
    assert words in " ".join(done.output.split())
    assert "unexpected" not in done.output
