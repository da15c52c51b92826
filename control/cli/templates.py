"""`medley templates`: the library of serving templates."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from templates_lib.ports.library_store import LibraryInfo

app = Commands(name="templates", help="Build and inspect libraries of serving templates.", no_args_is_help=True)


@app.command("build")
def build(
    file: Annotated[Path, typer.Option("--file", "-f", help="Spec file.", metavar="SPEC")],
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Build the library that a spec file needs, or find it. An interrupted build goes on where it stopped."""
    from control.cli.planning import session
    from control.db.location import home_directory
    from control.planning.local_profiles import with_known_profiles
    from control.planning.templates import build_templates
    from control.planning.world import read_world

    recipe = with_known_profiles(read_world(file), home_directory(os.environ)).sources
    with session(database_url) as opened:
        version = build_templates(recipe, opened.store, opened.progress)
        info = opened.store.show(version)
    _print(info, output)


@app.command("list")
def list_(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List the stored libraries, unfinished ones included."""
    from control.cli.planning import session

    with session(database_url) as opened:
        libraries = opened.store.libraries()
    if emitted([_document(info) for info in libraries], output):
        return
    right = ("sets", "templates", "kept", "seconds")
    shown = table("library", "of", "configurations", *right, "built", right=right)
    for info in libraries:
        done = sum(unit.done for unit in info.units)
        shown.add_row(
            info.version or "(unfinished)", ", ".join(dict.fromkeys(c.component for c in info.classes)),
            str(len(info.configs)),
            f"{info.sets:,}", f"{info.templates:,}", f"{info.kept:,}", f"{info.seconds:.1f}",
            info.finished_at[:19] or f"{done} of {len(info.units)} units",
        )  # fmt: skip
    console().print(shown)


@app.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="Version of a library (`medley templates list`), or id of a template (in any plan); or the beginning."
        ),
    ],
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show what a library was made from, unit by unit, or what a template runs on each of its nodes."""
    from control.cli.planning import session
    from control.planning.templates import stored_template

    name = _whole(name, database_url)
    with session(database_url) as opened:
        try:
            info = opened.store.show(name)
        except LookupError as no_library:
            try:
                stored = stored_template(opened.store, name)
            except LookupError:
                raise no_library from None
            if emitted(stored, output):
                return
            from control.cli.template_table import print_template

            print_template(stored, console())
            return
    _print(info, output)


def _whole(name: str, database_url: str | None) -> str:
    """The version or id that begins with `name`, which stays as it is where neither does."""
    from control.cli.acting import opened
    from control.db.errors import AmbiguousIdError, NotStoredError
    from control.db.short_ids import whole_id

    with opened(database_url) as database:
        for what in ("library", "template"):
            try:
                return whole_id(database, what, name)
            except AmbiguousIdError:
                raise
            except NotStoredError:
                continue
    return name


def _document(info: "LibraryInfo") -> dict[str, Any]:
    import msgspec

    counts = {"sets": info.sets, "templates": info.templates, "kept": info.kept, "seconds": info.seconds}
    document: dict[str, Any] = msgspec.to_builtins(info)
    return document | counts


def _print(info: "LibraryInfo", output: Output) -> None:
    if emitted(_document(info), output):
        return
    right = ("node sets", "templates", "kept", "seconds")
    shown = table("class", *right, right=right, title=f"Library {info.version}")
    for unit in info.units:
        shown.add_row(unit.name, f"{unit.sets:,}", f"{unit.templates:,}", f"{unit.kept:,}", f"{unit.seconds:.1f}")
    shown.add_row("all", f"{info.sets:,}", f"{info.templates:,}", f"{info.kept:,}", f"{info.seconds:.1f}", style="bold")
    console().print(shown)
    parameters = ", ".join(f"{name} {value:g}" for name, value in info.parameters.items())
    sys.stdout.write(f"{info.kind}; {parameters}; {len(info.configs)} configurations: {', '.join(info.configs)}\n")
