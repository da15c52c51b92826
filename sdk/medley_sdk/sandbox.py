"""The process that runs the code of tasks: `python -m medley_sdk.sandbox`, asked over its standard input.

Its address space and its processor time are limited, and nothing is written to files. Standard output is for its
replies alone: what the code prints goes nowhere.
"""

import os
import resource
import time
from collections.abc import Mapping
from typing import BinaryIO

import msgspec

from medley_sdk.errors import TaskError
from medley_sdk.loading import fault_of, load
from medley_sdk.messages import (
    HEADER_BYTES,
    MOST_FRAME_BYTES,
    Ask,
    Branches,
    Fault,
    Limits,
    Load,
    Loaded,
    Recorded,
    RecordOne,
    Replay,
    Reply,
    TaskInfo,
    Why,
)
from medley_sdk.recording import branches, recorded, replayed
from medley_sdk.workflow import Workflow

OPEN_FILES = 64


class Sandbox:
    def __init__(self) -> None:
        self._file, self._limits = "", Limits()
        self._tasks: Mapping[str, Workflow] = {}

    def reply(self, ask: Ask) -> Reply:
        """Do what is asked. Whatever the code does comes back as a fault."""
        bound_processor(self._limits.processor_s)
        try:
            return self._done(ask)
        except BaseException as error:
            return fault_of(error, self._file)

    def _done(self, ask: Ask) -> Reply:
        match ask:
            case Load(file, source, limits):
                self._file, self._limits = file, limits
                bound(limits)
                self._tasks = load(source, file)
                found = (TaskInfo(name, flow.takes, flow.makes) for name, flow in self._tasks.items())
                return Loaded(tuple(found))
            case Branches(task, signature):
                return Recorded(tuple(branches(self._task(task), signature)))
            case RecordOne(task, signature, choices):
                return Recorded((recorded(self._task(task), signature, choices),))
            case Replay(task, record, values):
                return Recorded((replayed(self._task(task), record, values),))

    def _task(self, name: str) -> Workflow:
        if name not in self._tasks:
            raise TaskError(f"there is no workflow {name!r}; there are {', '.join(self._tasks) or 'none'}")
        return self._tasks[name]


def bound_processor(seconds: int) -> None:
    """Have the kernel end this process when it has computed for as long as that from now on (to a second)."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    end_s = int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (end_s if hard == resource.RLIM_INFINITY else min(end_s, hard), hard))


def bound(limits: Limits) -> None:
    """Bound what this process may use from now on, for good."""
    for kind, most in (
        (resource.RLIMIT_AS, limits.memory_mib << 20),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
    ):
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))


def main() -> None:
    """Answer what is asked until the pipe is closed."""
    asks, replies = taken_pipes()
    decoder, encoder, sandbox = msgspec.msgpack.Decoder(Ask), msgspec.msgpack.Encoder(), Sandbox()
    while len(header := asks.read(HEADER_BYTES)) == HEADER_BYTES:
        reply = sandbox.reply(decoder.decode(asks.read(int.from_bytes(header, "big"))))
        data = encoder.encode(reply)
        if len(data) > MOST_FRAME_BYTES:
            data = encoder.encode(Fault(Why.REFUSED, f"its records are larger than {MOST_FRAME_BYTES >> 20} MiB"))
        replies.write(len(data).to_bytes(HEADER_BYTES, "big") + data)
        replies.flush()


def taken_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the pipes out of reach of the code, and give it nothing to read and nowhere to print."""
    asks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    return asks, replies


if __name__ == "__main__":
    main()
