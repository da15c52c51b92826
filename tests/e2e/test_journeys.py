"""The steps of docs/journeys.md, typed as they stand there, and no more of them than elsewhere."""

import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.e2e.conftest import Run

PAGE = (Path(__file__).parents[2] / "docs" / "journeys.md").read_text()
TABLE = re.findall(r"^\| \[([^]]+)\]\(#\S+\) \| (\d+) \| (\d+|–) \| (\d+|–) \|", PAGE, re.MULTILINE)


def steps(journey: str) -> list[str]:
    """The lines that a person types."""
    (section,) = re.findall(rf"^## {journey}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    lines: list[str] = re.findall(r"^    (medley .+)$", section, re.MULTILINE)
    return lines


def test_the_ways_of_the_page_have_no_more_steps_than_elsewhere() -> None:
    assert len(TABLE) == 3
    for name, ours, *others in TABLE:
        assert len(steps(name)) == int(ours), name
        assert all(int(ours) <= int(each) for each in others if each != "–"), name


@pytest.mark.slow
def test_a_fleet_is_planned_explained_and_held_to_a_budget(medley: Run, database_url: str, tmp_path: Path) -> None:
    def typed(line: str) -> CompletedProcess[str]:
        words = line.replace("fleet.yaml", str(tmp_path / "fleet.yaml"))  # in a folder of its own
        return medley(*shlex.split(words)[1:], MEDLEY_DATABASE_URL=database_url)

    wrote, planned = map(typed, steps("plan a fleet"))
    assert (wrote.returncode, planned.returncode) == (0, 0), planned.stderr
    assert "medley plan -f" in wrote.stdout
    assert "$/h" in planned.stdout
    (explained,) = map(typed, steps("why this plan"))
    assert explained.returncode == 0, explained.stderr
    assert "What binds" in explained.stdout
    budget, within = map(typed, steps("a budget is hit"))
    assert budget.returncode == 0, budget.stderr
    assert "budget of project default" in within.stdout + within.stderr
