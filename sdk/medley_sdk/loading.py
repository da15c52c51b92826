"""Running the code of users: for the process of tasks alone."""

import sys
from types import ModuleType
from typing import Any

from medley_sdk.errors import BudgetError, NonDeterminismError, TaskError, UncertainCallError
from medley_sdk.messages import Fault, Why
from medley_sdk.workflow import Workflow

MODULE = "medley_task"
MOST_REASON = 500


def load(source: str, file: str) -> dict[str, Workflow]:
    """Run a file, and return its composite tasks by the names of their variables. Raises whatever its code raises."""
    found = executed_file(source, file).items()
    return {name: value for name, value in found if isinstance(value, Workflow) and value.is_task}


def executed_file(source: str, file: str) -> dict[str, Any]:
    """Run a file, and return its variables. Raises whatever its code raises."""
    module = ModuleType(MODULE)
    module.__file__ = file
    sys.modules[MODULE] = module  # where dataclasses and type hints of its classes look
    exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102 - what this process is for
    return dict(vars(module))


def fault_of(error: BaseException, file: str) -> Fault:
    """Say what went wrong, and at which line of the file."""
    if isinstance(error, MemoryError):
        return Fault(Why.MEMORY, f"{_place(error, file)}uses more memory than a task may")
    reason = str(error)[:MOST_REASON].encode(errors="replace").decode().replace("\0", "?")  # it is stored as text
    if isinstance(error, NonDeterminismError):
        return Fault(Why.DIFFERS, _place(error, file) + reason)
    if isinstance(error, BudgetError | UncertainCallError):
        return Fault(Why.BUDGET if isinstance(error, BudgetError) else Why.UNCERTAIN, _place(error, file) + reason)
    if isinstance(error, TaskError):
        return Fault(Why.REFUSED, _place(error, file) + reason)
    return Fault(Why.RAISED, f"{_place(error, file)}raises {type(error).__name__}{': ' if reason else ''}{reason}")


def _place(error: BaseException, file: str) -> str:
    """Name the line of the file that the error came through last."""
    line: int | None = error.lineno if isinstance(error, SyntaxError) else None
    trace: Any = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{file}: " if line is None else f"{file}:{line}: "
