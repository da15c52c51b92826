"""What goes over the pipe between a process of tasks and the one that started it: MessagePack behind four bytes that
say how long it is."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from medley_sdk.values import Record, Signature

HEADER_BYTES = 4
MOST_FRAME_BYTES = 8 << 20


class Limits(Struct, frozen=True, array_like=True):
    memory_mib: int = 1024
    """Address space of the process."""
    processor_s: int = 10
    """Processor time of one call. The parent ends what takes long; this ends a process whose parent is gone."""


class Load(Struct, frozen=True, array_like=True, tag="load"):
    file: str
    """Name for error messages."""
    source: str
    limits: Limits = Limits()


class Branches(Struct, frozen=True, array_like=True, tag="branches"):
    """Record every way through the choices of a task."""

    task: str
    signature: Signature


class RecordOne(Struct, frozen=True, array_like=True, tag="record"):
    task: str
    signature: Signature
    choices: tuple[int, ...] = ()


class Replay(Struct, frozen=True, array_like=True, tag="replay"):
    task: str
    record: Record
    values: tuple[Any, ...]
    """What each call gave: its text, or None where it gave none."""


Ask = Load | Branches | RecordOne | Replay


class TaskInfo(Struct, frozen=True, array_like=True):
    name: str
    """Of the variable that holds it."""
    takes: tuple[str, ...]
    makes: tuple[str, ...]


class Loaded(Struct, frozen=True, array_like=True, tag="loaded"):
    tasks: tuple[TaskInfo, ...]


class Recorded(Struct, frozen=True, array_like=True, tag="recorded"):
    records: tuple[Record, ...]


class Why(StrEnum):
    RAISED = "raised"
    REFUSED = "refused"
    DIFFERS = "differs"
    MEMORY = "memory"
    BUDGET = "budget"
    UNCERTAIN = "uncertain"


class Fault(Struct, frozen=True, array_like=True, tag="fault"):
    """The code of the task did not do it."""

    why: Why
    reason: str
    """With the line of the file where one is known."""


Reply = Loaded | Recorded | Fault
