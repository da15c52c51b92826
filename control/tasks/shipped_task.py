"""Tasks that ship: of each graph whose components a function of the SDK's library calls."""

from pathlib import Path

from control.tasks.task_source import TaskSource, file_and_name
from templates_lib.graphs.catalogue import graph_names, load_graph

LIBRARY = {
    ("vision", "language"): "picture_chat",
    ("vision", "hearing", "thinker", "talker", "vocoder"): "omni_chat",
    ("text", "picture"): "picture_making",
    ("hearing", "writing"): "transcription",
    ("voice",): "speech",
    ("picture",): "image",
}
"""Components of a graph → module of `medley_sdk.library`, and its function that makes a task of a graph's name."""
VARIABLE = "task"


def shipped_source(graph: str) -> TaskSource:
    """Return the file of a graph's task, which is `VARIABLE` in it. Raises LookupError with the nearest name,
    ValueError for a graph that has none."""
    return library_task(graph, tuple(component.name for component in load_graph(graph).components))[0]


def library_task(of: str, components: tuple[str, ...], folder: str = "") -> tuple[TaskSource, str]:
    """Return the file of the task that ships for a graph of these components, in order, and the variable that it is in.
    `of`: its name, or the path of its config, relative to `folder`. Raises ValueError for a graph that has none."""
    if (function := LIBRARY.get(components)) is None:
        raise ValueError(f"no task ships for {of} ({', '.join(components)}); write one, and give FILE.py:NAME")
    code = f"from medley_sdk.library.{function} import {function}\n\n{VARIABLE} = {function}({of!r})\n"
    return TaskSource(f"task of {of}", code, folder), VARIABLE


def shipped_names() -> tuple[str, ...]:
    """List the tasks that ship: names of graphs."""
    return tuple(
        name for name in graph_names() if tuple(component.name for component in load_graph(name).components) in LIBRARY
    )


def named_task(given: str, folder: Path) -> tuple[TaskSource, str]:
    """Return the source of a task, and the variable that it is in: of `FILE.py:NAME`, the file relative to `folder`, or
    of one that ships. Raises ValueError and LookupError for what is neither."""
    if ":" in given or "/" in given or given.endswith(".py"):
        return file_and_name(given, folder)
    return shipped_source(given), VARIABLE
