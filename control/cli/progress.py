"""How far a library's build is: a bar on a terminal, a line for each finished unit elsewhere. Always on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from templates_lib.source import Progress


@contextmanager
def build_progress() -> Iterator[Progress]:
    """A `Progress` to hand to a build. Nothing is shown when nothing is built."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, object] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]

        yield show


def _line(what: str, done: int, total: int) -> None:
    if done == total:
        typer.echo(f"built {what} ({total:,})", err=True)
