"""What a simulation leaves in a folder can be read by others, adds up, and needs nothing from elsewhere."""

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from control.simulator.report.files import RowFormat, write_results
from control.simulator.report.summary import Summary
from tests.control.simulator.report.results import LENGTH_S, result

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    folder = tmp_path_factory.mktemp("results")
    return folder, write_results(result(), folder)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_request_has_a_row_and_its_fate_is_counted(written: tuple[Path, Summary]) -> None:
    folder, summary = written
    found, said = rows(folder / "requests.csv"), json.loads((folder / "summary.json").read_text())
    assert len(found) == summary.requests == said["requests"]
    for model in said["models"]:
        own = [row["fate"] for row in found if row["model"] == model["name"]]
        assert model["fates"] == {fate: own.count(fate) for fate in model["fates"]}
        assert sum(model["fates"].values()) == model["requests"] == len(own)
    good = [row for row in found if row["fate"] == "within"]
    tokens = sum(int(row["made_tokens"]) for row in good)
    assert said["goodput_tokens_per_s"] == pytest.approx(tokens / LENGTH_S)
    assert {row["ttft_ms"] == "" for row in found if row["fate"] == "refused"} == {True}
    assert {row["decode_instance"] for row in found if row["fate"] == "refused"} == {""}


def test_money_of_nodes_and_of_epochs_adds_up_to_what_was_spent(written: tuple[Path, Summary]) -> None:
    folder, summary = written
    for name in ("nodes", "epochs"):
        total = sum(float(row["spent_usd"]) for row in rows(folder / f"{name}.csv"))
        assert total == pytest.approx(summary.spent_usd, abs=0.005)


def test_the_summary_tells_two_runs_apart_by_what_differs(written: tuple[Path, Summary], tmp_path: Path) -> None:
    folder, summary = written
    same = write_results(result(), tmp_path / "same", plots=False)
    other = write_results(result(seed=4), tmp_path / "other", plots=False)
    assert same == summary
    assert (tmp_path / "same" / "requests.csv").read_bytes() == (folder / "requests.csv").read_bytes()
    assert other.fingerprints.requests != summary.fingerprints.requests
    assert other.fingerprints.plans == summary.fingerprints.plans
    assert not (tmp_path / "same" / "report.html").exists()


def test_parquet_files_have_the_rows_of_the_others(written: tuple[Path, Summary], tmp_path: Path) -> None:
    folder, _ = written
    write_results(result(), tmp_path, rows=RowFormat.PARQUET, plots=False)
    for path in sorted(folder.glob("*.csv")):
        table = pq.read_table(tmp_path / f"{path.stem}.parquet").to_pylist()
        plain = [{name: "" if value is None else str(value) for name, value in row.items()} for row in table]
        assert plain == rows(path)


def test_the_page_asks_for_nothing_and_every_chart_is_a_picture_too(written: tuple[Path, Summary]) -> None:
    folder, _ = written
    page = (folder / "report.html").read_text()
    HTMLParser().feed(page)
    asked = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\')\s>]+)', page)
    assert all(target.startswith(("#", "data:,")) for target in asked)
    assert "<script" not in page
    assert "code is &lt;new&gt; &amp; small" in page
    charts = re.findall(r'<figure id="([a-z]+)"', page)
    assert set(charts) == {"cost", "goodput", "attainment", "utilisation", "busy", "fleet", "ttft", "tpot"}
    assert all((folder / f"{chart}.png").read_bytes().startswith(PNG) for chart in charts)
    # Colours of pictures are the reader's: none that only marks one is left.
    assert "#fe0" not in page
    assert page.count("var(--line-1)") > len(charts)


def test_a_run_without_a_single_request_has_a_report(tmp_path: Path) -> None:
    summary = write_results(result(requests_per_s=0.0), tmp_path)
    assert (summary.requests, summary.within_share) == (0, None)
    assert rows(tmp_path / "requests.csv") == []
    assert "nothing to show" in (tmp_path / "report.html").read_text()


def test_what_makes_no_text_beside_a_text_model_has_answers_and_no_tokens(tmp_path: Path) -> None:
    both = result()
    chat, code = both.models
    summary = write_results(replace(both, models=(chat, replace(code, shape=None))), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Time to first token or answer" in page
    assert "per output token" in page
    text, other = summary.models
    assert text.goodput_tokens_per_s == summary.goodput_tokens_per_s > 0
    assert other.goodput_tokens_per_s == other.output_tokens_per_s == other.prompt_tokens_per_s == 0
    assert other.goodput_requests_per_s == pytest.approx(other.fates["within"] / LENGTH_S)
    assert "leg_1_instance" in rows(tmp_path / "requests.csv")[0]
