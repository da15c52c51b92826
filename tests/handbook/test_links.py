"""Links of the documentation as they are in the repository, and as the site has them."""

import re
from pathlib import Path

import pytest

from handbook.links import DOCS, as_page, files_linked, folder_page, relinked, site_page

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "bench/README.md")]
CODE = "Text.\n\n```\n[x](../b.py)\n```\n\n    [x](../c.py)\n"
SOURCES = [path for room in ("agents", "control", "policies", "templates_lib") for path in (ROOT / room).rglob("*.py")]


def test_pages_lie_where_links_lead() -> None:
    assert site_page("docs/howto/gpu.md") == "howto/gpu.md"
    assert site_page("bench/README.md") == "repository/bench/README.md"
    assert site_page("examples/a.yaml") == "repository/examples/a.yaml.md"


@pytest.mark.parametrize(
    ("path", "text", "there"),
    [
        ("docs/a.md", "[x](b.md#c) and [y](../bench/README.md#d)", "[x](b.md#c) and [y](repository/bench/README.md#d)"),
        ("docs/howto/a.md", "[x](../b.md)", "[x](../b.md)"),
        ("CONTRIBUTING.md", "[x](docs/howto/a.md), [y](bench/x.py)", "[x](../howto/a.md), [y](bench/x.py.md)"),
        (
            "docs/a.md",
            "[x](https://example.org), [y](#z), ![p](q.png)",
            "[x](https://example.org), [y](#z), ![p](q.png)",
        ),
        ("docs/a.md", CODE, CODE),
    ],
)
def test_links_lead_to_pages_of_the_site_and_code_stays_as_it_is(path: str, text: str, there: str) -> None:
    assert relinked(path, text) == there


def test_files_and_folders_become_pages() -> None:
    assert "```yaml\na: 1\n```" in as_page("examples/a.yaml", "a: 1\n")
    assert folder_page("x", ["b", "a"]).index("`x/a`") < folder_page("x", ["b", "a"]).index("`x/b`")


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    path = str(page.relative_to(ROOT))
    made = {f"{DOCS}reference/{name}.md" for name in ("spec", "commands", "operations")}
    missing = [each for each in files_linked(path, page.read_text()) if each not in made and not (ROOT / each).exists()]
    assert missing == []


def test_what_an_error_says_is_looked_up_by_words_that_the_program_has() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    quoted = re.findall(r"^### `([^`]+)`", text, re.MULTILINE)
    assert len(quoted) > 10
    code = "\n".join(path.read_text() for path in SOURCES)
    plain = re.sub(r"\"\s*\n\s*f?\"", "", code)  # messages are written over several lines
    for words in quoted:
        parts = [part.strip() for part in words.split("NAME")]
        assert all(part in plain for part in parts), words
