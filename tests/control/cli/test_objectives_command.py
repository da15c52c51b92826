"""`medley objectives`: a curve as a table, a document and a picture, and what it refuses."""

import io
import json
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from control.cli.main import app
from control.cli.prompt_cuts import advice, print_cuts
from control.planning.cut_costs import CutCurve
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


def test_cuts_of_prompts_are_a_document_and_a_picture_and_the_cheapest_is_named(
    database_url: str, spec: Path, tmp_path: Path
) -> None:
    spec.write_text(KEEP_SPEC.format(keep="{percentile: 90}"))  # of which fewer requests are simulated than of 99
    picture = tmp_path / "cuts.png"
    arguments = ("--axis", "bands", "--model", MODEL, "--at", "80")
    done = objectives(database_url, spec, *arguments, "--plot", str(picture), "-o", "json")
    assert done.exit_code == 0, done.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = json.loads(done.stdout)
    (curve,) = document["curves"]
    assert (document["kind"], curve["axis"], curve["unit"], curve["now"]) == ("medley/objectives", "bands", "tokens", 0)
    none, *cuts = curve["points"]
    assert none["usd_per_hour"] == document["usd_per_hour"]
    assert {each["chosen"] for each in cuts} == {"80 % of the requests", "half of the prompt tokens"}
    kept = [each for each in curve["points"] if each["is_kept"]]
    named = next(each for each in kept if each["value"] == curve["cheapest"])
    assert named["usd_per_hour"] <= min(each["usd_per_hour"] for each in kept) + 0.003 * document["usd_per_hour"]
    assert curve["line"] == f"slo.max_prompt_tokens: {curve['cheapest']}"
    out = Console(record=True, width=160, file=io.StringIO())
    (read,) = msgspec.convert(document["curves"], list[CutCurve])
    print_cuts([read], document["usd_per_hour"], out)
    text = out.export_text()
    assert curve["advice"] in text
    for each in cuts:
        row = next(line for line in text.splitlines() if line.strip().startswith(f"{each['value']:,}"))
        assert f"{each['long_share']:.1%}" in row
        assert f"{each['usd_per_hour']:,.2f}" in row


@pytest.mark.parametrize(
    ("now", "cheapest", "saves", "words"),
    [
        (0, 0, 0.0, "no cut is the cheapest: leave slo.max_prompt_tokens out"),
        (800, 800, 0.0, "the cut in force is the cheapest: leave slo.max_prompt_tokens: 800 as it is"),
        (0, 800, 1.5, "a cut at 800 tokens is 1.50 $/h cheaper: write slo.max_prompt_tokens: 800 into the spec"),
        (800, 0, 1.5, "no cut is 1.50 $/h cheaper: take slo.max_prompt_tokens: 800 out of the spec"),
        (0, 800, -1.5, "a cut at 800 tokens is better, for it serves more"),
    ],
)
def test_advice_says_what_to_write(now: int, cheapest: int, saves: float, words: str) -> None:
    assert words in advice(CutCurve(MODEL, now, (), cheapest, saves))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "gpt-oss-2b"), f"did you mean '{MODEL}'"),
        (("--axis", "tbt"), "valid: bands, percentile, tpot, ttft"),
        (("--axis", "bands", "--at", "0"), "more than 0 and less than 100 %"),
        (("--axis", "bands", "--at", "100"), "more than 0 and less than 100 %"),
        (("--axis", "bands", "--at", "half"), "give numbers with commas"),
        (("--axis", "bands"), "no model of it promises a share of its requests"),
        (("--axis", "bands", "--model", MODEL), "promises nothing to requests that wait"),
        (("--axis", "bands", "--model", "gpt-oss-2b"), f"did you mean '{MODEL}'"),
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
