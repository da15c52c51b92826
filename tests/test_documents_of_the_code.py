"""What people read before they change the code names files, commands and names that are there."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
HOWTOS = sorted((REPOSITORY / "docs" / "howto").glob("*.md"))
MAPS = [*HOWTOS, REPOSITORY / "docs" / "ARCHITECTURE.md", REPOSITORY / "CONTRIBUTING.md"]
ROOMS = r"(?:agents|bench|control|docs|examples|migrations|policies|templates_lib|terraform|tests|web)"
SUBJECTS = {"cloud", "gpu", "engine", "baseline", "forecast", "routing-policy", "guardrail", "resource"}


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_a_path_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(rf"`({ROOMS}/[\w./-]+)`", page.read_text())
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("page", HOWTOS, ids=lambda page: page.name)
def test_a_name_that_is_said_to_be_in_a_file_is_in_it(page: Path) -> None:
    named = re.findall(rf"`(\w+)` (?:of|in)\s+`({ROOMS}/[\w./-]+\.py)`", page.read_text())
    assert [(name, file) for name, file in named if name not in (REPOSITORY / file).read_text()] == []


@pytest.mark.parametrize("page", HOWTOS, ids=lambda page: page.name)
def test_a_module_that_is_said_to_be_run_is_there(page: Path) -> None:
    for module in re.findall(r"python -m ([\w.]+)", page.read_text()):
        path = REPOSITORY.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def test_each_question_of_a_newcomer_has_one_page_which_the_contents_name() -> None:
    pages = {page.stem for page in HOWTOS}
    assert pages >= SUBJECTS
    contents = re.findall(r"^\| .* \| \[docs/howto/([\w-]+)\.md\]\(docs/howto/\1\.md\) \|$",
                          (REPOSITORY / "CONTRIBUTING.md").read_text(), re.MULTILINE)  # fmt: skip
    assert sorted(contents) == sorted(pages)
