"""Results of commands: a table for people, JSON or YAML for programs."""

import os
import sys
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


PIPE_WIDTH = 160
_GAP = 2
"""Cells between two columns of a table."""


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output-format", "-o", help="How to print the result.")]


def render(document: Any, output: Output) -> str:
    """JSON or YAML text of a document of plain values (dataclasses and enums included)."""
    import msgspec

    encoded = msgspec.json.encode(document)
    if output is Output.JSON:
        return msgspec.json.format(encoded, indent=2).decode() + "\n"
    import yaml

    text: str = yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True)
    return text


def emit(document: Any, output: Output) -> None:
    sys.stdout.write(render(document, output))


def emitted(document: Any, output: Output) -> bool:
    """Print the result if programs read it, and tell whether they do; else the command prints a table."""
    if output is not Output.TABLE:
        emit(document, output)
    return output is not Output.TABLE


def say(text: str) -> None:
    """Write a line for people to stderr, apart from the result."""
    typer.echo(text, err=True)


def console() -> "Console":
    """A console on stdout: as wide as the terminal, or wide enough for tables where there is none."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=PIPE_WIDTH)


def table(*columns: str, right: Collection[str] = (), title: str | None = None) -> "Table":
    """An empty table; the columns of `right` are numbers, which end in line."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def fitting_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    right: Collection[str] = (),
    spare: Sequence[str] = (),
) -> "Table":
    """Make a table of rows. Of the `spare` columns, the first first, as many are left out as it takes to show the
    others in `width` cells, each row in a line; what is still too wide is folded, as nothing of a name may be lost."""
    from rich.cells import cell_len

    most = {name: max(map(cell_len, (name, *(row[n] for row in rows)))) for n, name in enumerate(columns)}
    left = list(columns)
    for name in spare:
        if sum(most[each] for each in left) + _GAP * (len(left) - 1) <= width:
            break
        left.remove(name)
    shown = table(*left, right=right)
    for row in rows:
        shown.add_row(*(cell for name, cell in zip(columns, row, strict=True) if name in left))
    return shown


def refuse_unwritable(*paths: Path | None) -> None:
    """Raise ValueError for a file that cannot be written, before any work is done for it."""
    for path in paths:
        if path is None:
            continue
        folder = path.absolute().parent
        if not folder.is_dir():
            raise ValueError(f"{path}: cannot be written: there is no folder {folder}")
        if path.is_dir():
            raise ValueError(f"{path}: cannot be written: it is a folder")
        if not os.access(folder, os.W_OK):
            raise ValueError(f"{path}: cannot be written: you may not write in the folder {folder}")


def refuse_unwritable_folder(folder: Path) -> None:
    """Raise ValueError for a folder that cannot be written, or made where it is not there."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"{folder}: cannot be written: {there} is a file")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{folder}: cannot be written: you may not write in the folder {there}")


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, so that an interrupted run leaves no half of it."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
