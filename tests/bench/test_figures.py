"""Tables of README and documents are those that commands print."""

import csv
from pathlib import Path

import pytest

from bench.evaluation import cost
from bench.evaluation.campaign import Campaign
from bench.evaluation.methods import METHODS
from bench.figures import DOCUMENTS, MARKED, PRINTED, ROOT, renewed


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tables_of_documents_are_those_that_were_printed_last(name: str) -> None:
    text = (ROOT / name).read_text()
    assert MARKED.search(text)
    assert renewed(text) == (text, [])


def test_a_table_that_is_not_what_was_printed_is_named_and_written_anew(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text('"$/h",ours,theirs\nsmall,1.00,2.00\nlarge,3.00,"4.00, serves 85 %"\n')
    (tmp_path / "same.csv").write_text("a,b\n1,2\n")
    same = "<!-- printed: same -->\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    old = "| $/h | theirs |\n| --- | --- |\n| small | 2.00 |\n| large | 5.00 |\n"
    text = f"above\n\n<!-- printed: costs: $/h | theirs -->\n{old}\nbelow\n\n{same}"
    written, stale = renewed(text, tmp_path)
    assert stale == ["costs"]
    assert written == text.replace("5.00", "4.00, serves 85 %")
    assert renewed(written, tmp_path) == (written, [])


@pytest.mark.parametrize("marker", ["none", "costs: $/h | nobody's"])
def test_a_table_that_was_never_printed_is_an_error(tmp_path: Path, marker: str) -> None:
    (tmp_path / "costs.csv").write_text("$/h,ours\nsmall,1.00\n")
    with pytest.raises(ValueError, match=r"none|nobody's"):
        renewed(f"<!-- printed: {marker} -->\n| a |\n", tmp_path)


@pytest.mark.slow
def test_the_core_set_up_costs_today_what_documents_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of all methods over five epochs: prices, step times, templates and planner are those of the figures."""
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path / "home"))
    with Campaign(("core",), ("balanced",), tuple(METHODS)) as campaign:
        cost.run(campaign, tmp_path)
    made, known = (_averages(folder / "cost-core-balanced.csv") for folder in (tmp_path, PRINTED))
    assert made == pytest.approx(known, rel=0.01)


def _averages(path: Path) -> dict[str, float]:
    """$/h by method."""
    with path.open(newline="") as lines:
        return {row["method"]: float(row["average, $/h"]) for row in csv.DictReader(lines)}
