"""`medley tasks`: any-to-any models as their developers write them, in Python."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.guard import Commands
from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from control.planning.task_file import PlannedTask

app = Commands(
    name="tasks",
    help="Inspect tasks: any-to-any models in Python, with the paths of their requests.",
    no_args_is_help=True,
)


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """List the tasks that ship with Medley, each under the name of its graph."""
    from control.tasks.shipped_task import shipped_names
    from templates_lib.graphs.catalogue import load_graph
    from templates_lib.graphs.request_type import possible_types

    types = {name: list(possible_types(load_graph(name))) for name in shipped_names()}
    if emitted([{"task": name, "request_types": kinds} for name, kinds in types.items()], output):
        return
    shown = table("task", "request types")
    for name, kinds in types.items():
        shown.add_row(name, ", ".join(kinds))
    console().print(shown)


@app.command("check")
def check(
    task: Annotated[
        str,
        typer.Argument(help="A Python file, FILE.py:NAME for one of its workflows, or a name of `medley tasks list`."),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Record a task twice, in processes of its own, and show the paths of its requests."""
    found = _checked(task)
    if emitted([_document(name, planned) for name, planned in found.items()], output):
        return
    for name, planned in found.items():
        console().print(f"{name}: {planned.graph.id}, {', '.join(planned.ways.components)}", style="bold")
        shown = table("request type", "paths", "choices")
        for row in _document(name, planned)["request_types"]:
            paths = [" -> ".join("+".join(option) for option in path["options"]) for path in row["paths"]]
            choices = [", ".join(map(str, path["choices"])) for path in row["paths"]]
            shown.add_row(row["request_type"], "\n".join(paths), "\n".join(choices))
        console().print(shown)
        for source, target in planned.ways.at_once:
            console().print(f"could stream, and does not: {source} -> {target}")


def _checked(task: str) -> dict[str, "PlannedTask"]:
    """Name to show → what a workflow comes to. Raises ValueError and LookupError with what is wrong with the first."""
    from control.planning.task_file import task_of
    from control.tasks.recorded_task import two_recorders
    from control.tasks.shipped_task import named_task
    from control.tasks.task_source import source_of

    source, name = (source_of(Path(task)), None) if task.endswith(".py") else named_task(task, Path())
    with two_recorders(source) as recorders:
        shown = {each.name: each.name for each in recorders.tasks()} if name is None else {task: name}
        if not shown:
            raise ValueError(f"{task}: has no workflow; define one with @workflow(...) and `async def`")
        return {title: task_of(source, recorders.recorded(each)) for title, each in shown.items()}


def _document(name: str, planned: "PlannedTask") -> dict[str, Any]:
    ways = planned.ways
    return {
        "task": name,
        "graph": planned.graph.id,
        "revision": planned.graph.revision,
        "components": list(ways.components),
        "at_once": [list(ends) for ends in ways.at_once],
        "request_types": [
            {
                "request_type": kind,
                "paths": [
                    {"options": [list(option) for option in way.options], "choices": list(way.choices)}
                    for way in ways.ways
                    if way.request_type == kind
                ],
            }
            for kind in ways.request_types
        ],
    }
