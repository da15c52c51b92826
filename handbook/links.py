"""Links between pages of the site and files of the repository.

Pages of `docs/` link to files beside it, as a reader of the repository follows them. The site has no such files: each
that is linked to becomes a page of its own, and links lead there.
"""

import posixpath
import re
from collections.abc import Callable, Iterable

DOCS = "docs/"
BESIDE = "repository/"
"""Folder of the site for what lies beside `docs/`."""
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)")


def site_page(path: str) -> str:
    """Return the page of the site, by a path of the repository: `docs/x.md` → `x.md`, `bench/README.md` →
    `repository/bench/README.md`, `examples/a.yaml` → `repository/examples/a.yaml.md`."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return BESIDE + (path if path.endswith(".md") else f"{path}.md")


def files_linked(path: str, text: str) -> list[str]:
    """Return paths in the repository that a file links to, in the order in which it does. `path`: its own."""
    return list(dict.fromkeys(target for _, target, _ in _targets(path, text)))


def relinked(path: str, text: str) -> str:
    """Return the text of a file with its links as they are between pages of the site."""
    here = posixpath.dirname(site_page(path))

    def replaced(match: re.Match[str]) -> str:
        target, anchor = _target(path, match[2])
        if target is None or (target.startswith(DOCS) and not target.endswith(".md")):
            return match[0]
        return f"[{match[1]}]({posixpath.relpath(site_page(target), here or '.')}{anchor})"

    return _outside_code(text, lambda line: _LINK.sub(replaced, line))


def as_page(path: str, text: str) -> str:
    """Return the page of a file that is no Markdown."""
    return f"# {path}\n\n```{posixpath.splitext(path)[1].lstrip('.') or 'text'}\n{text.rstrip()}\n```\n"


def folder_page(path: str, names: Iterable[str]) -> str:
    """Return the page of a folder."""
    return f"# {path}\n\n" + "".join(f"- `{path}/{name}`\n" for name in sorted(names))


def _targets(path: str, text: str) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []

    def seen(line: str) -> str:
        for match in _LINK.finditer(line):
            target, anchor = _target(path, match[2])
            if target is not None:
                found.append((match[1], target, anchor))
        return line

    _outside_code(text, seen)
    return found


def _target(path: str, link: str) -> tuple[str | None, str]:
    """The path in the repository, and the anchor; None: it leads elsewhere."""
    if re.match(r"[a-z]+:", link) or link.startswith(("#", "/")):
        return None, ""
    file, hash_, anchor = link.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), file)), hash_ + anchor


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change lines that are no code."""
    is_code, lines = False, []
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            is_code = not is_code
        lines.append(line if is_code or line.startswith("    ") else change(line))
    return "".join(lines)
