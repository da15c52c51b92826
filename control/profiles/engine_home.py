"""Homes of engines on this machine: the Python that runs each, and its releases."""

import os
import sys
from importlib.metadata import distributions
from pathlib import Path

from templates_lib.values.engines import ENGINES, engine_pythons


class NoEngineError(LookupError):
    """Raised where an engine is not installed here; the message says what to do."""


def engine_python(engine: str) -> Path:
    """Raises NoEngineError."""
    kind = ENGINES[engine]
    if not kind.python_variable:
        return Path(sys.executable)
    named = engine_pythons(os.environ).get(engine)
    if named is not None and named.is_file():
        return named
    variable = kind.python_variable
    what = f"{variable} names {str(named)!r}, which is no file" if named else f"{variable} is not set"
    raise NoEngineError(f"engine {engine} is not installed here: {what}; `{kind.installed_by}` makes its environment")


def releases(engine: str) -> tuple[str, ...]:
    """`NAME VERSION` of what decides its step times. Empty: it is not installed here."""
    try:
        python = engine_python(engine)
    except NoEngineError:
        return ()
    kind = ENGINES[engine]
    own = [str(each) for each in python.parent.parent.glob("lib/python*/site-packages")]
    path = own if kind.python_variable else sys.path
    found = {name: each.version for name in kind.distributions for each in distributions(name=name, path=path)}
    return tuple(f"{name} {version}" for name, version in found.items())
