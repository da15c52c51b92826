"""Errors as a user sees them when a command fails: one line that says what, where and what next."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

import typer
from typer.core import TyperGroup
from typer.models import CommandFunctionType

from templates_lib.values.install_hint import install_hint

P = ParamSpec("P")
T = TypeVar("T")

INTERRUPTED = 130
_SHORT = 200
"""Characters of a command's line in the help of its group."""
_state = {"reached": False}


def reached_a_command() -> bool:
    """Tell whether the arguments were good enough for a command to start (else its exit code is the parser's)."""
    return _state["reached"]


def guarded(command: Callable[P, T], *, may_precede: bool = False) -> Callable[P, T]:
    """Turn every exception of a command into its message and exit code 1, with a traceback under MEDLEY_DEBUG=1.
    `may_precede`: the arguments of another, which may be bad, follow."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        _state["reached"] |= not may_precede
        try:
            return command(*args, **kwargs)
        except (typer.Exit, SystemExit):
            raise
        except typer.Abort:
            typer.echo("\nmedley: nothing was changed: you did not answer yes (`--yes` does)", err=True)
            raise typer.Exit(1) from None
        except BrokenPipeError:
            # The reader of our output (such as `head`) has seen enough; keep Python from failing at its last flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except KeyboardInterrupt as interrupt:
            typer.echo(f"medley: interrupted{f': {interrupt}' if str(interrupt) else ''}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if os.environ.get("MEDLEY_DEBUG") == "1":
                raise
            typer.echo(f"medley: error: {describe(error)}", err=True)
            raise typer.Exit(1) from None

    return run


class Sections(TyperGroup):
    """Commands in the help by what they are for; a class that follows says which (`SECTIONS`)."""

    SECTIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Title → commands, in their order. Those that are in none follow under a title of their own."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # typer's own click's, which it does not export
        named = {name for names in self.SECTIONS.values() for name in names}
        rest = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*self.SECTIONS.items(), ("Commands", rest)):
            found = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
            if found:
                with formatter.section(title):  # whole sentences: the formatter breaks lines
                    formatter.write_dl([(name, command.get_short_help_str(_SHORT)) for name, command in found])


class Commands(typer.Typer):
    """A group of commands, each of them guarded."""

    def command(self, *arguments: Any, **settings: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        register = super().command(*arguments, **settings)
        return lambda command: register(cast(Any, guarded(command)))

    def callback(self, *arguments: Any, **settings: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """What a group does without a command is guarded as one."""
        register = super().callback(*arguments, **settings)
        return lambda command: register(cast(Any, guarded(command, may_precede=True)))


def describe(error: Exception) -> str:
    """Errors that our own code raises on purpose speak for themselves; anything else is a bug and says so."""
    from agents.channels.errors import BadKeyError
    from control.db.errors import DatabaseError

    if (
        isinstance(error, ValueError | DatabaseError | LookupError | BadKeyError)
        and error.args
        and not _is_foreign(error)
    ):
        text = str(error.args[0])
        return f"{text.count(chr(10)) + 1} problems\n{text}" if "\n" in text else text
    if isinstance(error, ModuleNotFoundError) and (extras := _extras_with(error.name or "")):
        return f"{error.name} is not installed; an extra of Medley has it: {install_hint(extras[0])}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"unexpected {type(error).__name__}: {error} (MEDLEY_DEBUG=1 shows the traceback)"


def _extras_with(module: str) -> list[str]:
    """List the extras of this distribution that install `module`; empty: none does."""
    from importlib.metadata import requires

    name = {"zmq": "pyzmq", "sky": "skypilot"}.get(root := module.partition(".")[0], root.replace("_", "-"))
    found = (re.match(rf"{name}\b.*extra == .(?P<extra>\w+)", each) for each in requires("medley-serving") or ())
    return sorted({match["extra"] for match in found if match}, key=lambda extra: (extra != "serve", extra))


OURS = ("control", "agents", "policies", "templates_lib", "migrations", "builtins")


def _is_foreign(error: Exception) -> bool:
    """Tell whether the message is not one of ours: a library's own error, or a KeyError and the like from indexing."""
    return type(error).__module__.partition(".")[0] not in OURS or type(error) in (
        KeyError, IndexError, UnicodeDecodeError,
    )  # fmt: skip
