"""Progress of long work: a bar on a terminal, a line now and then elsewhere. Always on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from templates_lib.ports.source import Progress


@contextmanager
def build_progress() -> Iterator[Progress]:
    """A `Progress` to hand to the build of a library. Nothing is shown when nothing is built."""
    if sys.stderr.isatty():
        with _bars(transient=True) as show:
            yield show
    else:
        yield _built


@contextmanager
def run_progress() -> Iterator[Progress]:
    """The same for a simulation: what is left of it is seen too, and elsewhere a line for every tenth."""
    if sys.stderr.isatty():
        with _bars(transient=False) as show:
            yield show
        return
    tenths: dict[str, int] = {}

    def line(what: str, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth > tenths.setdefault(what, 0):
            tenths[what] = tenth
            typer.echo(f"{what}: {10 * tenth} %", err=True)

    yield line


@contextmanager
def _bars(*, transient: bool) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    left = () if transient else (TextColumn("left"), TimeRemainingColumn())
    with Bars(*columns, *left, console=Console(stderr=True), transient=transient) as bars:
        tasks: dict[str, object] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]

        yield show


def _built(what: str, done: int, total: int) -> None:
    if done == total:
        typer.echo(f"built {what} ({total:,})", err=True)
