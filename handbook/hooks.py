"""Hooks of MkDocs: pages that are made, and links as the site has them. `mkdocs.yml` names this file."""

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from handbook.command_reference import command_reference
from handbook.links import DOCS, as_page, files_linked, folder_page, relinked, site_page
from handbook.operation_reference import operation_reference
from handbook.spec_reference import spec_reference

ROOT = Path(__file__).parents[1]
ALSO = ("CONTRIBUTING.md", "CHANGELOG.md")
"""Files beside `docs/` that the contents name."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference, and a page for each file beside `docs/` that some page leads to."""
    for name, text in _reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    waiting = [f"{DOCS}{file.src_uri}" for file in files.documentation_pages() if file.generated_by is None]
    waiting += ALSO
    known = set(waiting)
    while waiting:
        path = waiting.pop()
        text = _text(path)
        if not path.startswith(DOCS):
            files.append(File.generated(config, site_page(path), content=relinked(path, text)))
        if path.endswith(".md"):
            fresh = [target for target in files_linked(path, text) if target not in known and _is_beside(target)]
            known.update(fresh)
            waiting += fresh
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links of a page of `docs/` to pages of the site."""
    if page.file.generated_by is not None:
        return markdown
    return relinked(f"{DOCS}{page.file.src_uri}", markdown)


def _reference() -> dict[str, str]:
    """Made by the program's own code."""
    import typer.main

    from control.api.app import routed
    from control.cli.main import app
    from control.fleet_file.json_schema import json_schema

    return {
        "spec": spec_reference(json.loads(json_schema())),
        "commands": command_reference(typer.main.get_command(app)),
        "operations": operation_reference(routed().openapi()),
    }


def _is_beside(path: str) -> bool:
    return not path.startswith((DOCS, "..")) and (ROOT / path).exists()


def _text(path: str) -> str:
    """Text of a file as a page."""
    at = ROOT / path
    if at.is_dir():
        return folder_page(path, (each.name for each in at.iterdir() if not each.name.startswith((".", "__"))))
    text = at.read_text()
    return text if path.endswith(".md") else as_page(path, text)
