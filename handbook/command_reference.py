"""Every command, from the program itself."""

from collections.abc import Iterator
from typing import Any

_HEAD = """# Every command

Made from the program, as `medley --help` and `medley COMMAND --help` show it; [the command line](../cli.md) tells how
commands are used together.
"""


def command_reference(root: Any) -> str:
    """The page in Markdown. `root`: typer's command of the whole program."""
    return "\n".join([_HEAD, *_pages(root, "medley")])


def _pages(command: Any, path: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    arguments = [param for param in command.params if not getattr(param, "hidden", False)]
    if path != "medley":
        usage = " ".join((path, *(_shown(param) for param in arguments if param.param_type_name == "argument")))
        yield f"## {path} {{#{path.replace(' ', '-')}}}\n\n```\n{usage}\n```\n"
        yield f"{_prose(command.help)}\n"
        options = [param for param in arguments if param.param_type_name == "option" and param.name != "help"]
        if options:
            yield "| option | |\n|---|---|"
            for param in options:
                yield f"| {', '.join(f'`{name}`' for name in param.opts)} | {_cell(getattr(param, 'help', ''))} |"
            yield ""
    for name in sorted(inner or ()):
        if not inner[name].hidden:
            yield from _pages(inner[name], f"{path} {name}")


def _shown(param: Any) -> str:
    name = param.human_readable_name.upper() + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _prose(text: str | None) -> str:
    """Paragraphs of help; `\\b` keeps lines as they are in a terminal."""
    return (text or "").replace("\b", "").strip()


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")
