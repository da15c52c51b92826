"""A rented node that measures itself: one part behind the other, each in a process of its own, and a line printed for
whatever comes of it (`agents.messages.to_profiler`)."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import IO

import msgspec
import torch

from agents.messages.to_hub import GpuReport
from agents.messages.to_profiler import Done, Failed, Machine, Measured, Meeting, ToProfiler, line
from agents.node.gpus import read_driver, read_gpus
from agents.transfer.rendezvous import Rendezvous
from templates_lib.values.engines import ENGINES
from templates_lib.values.processor_name import processor_name

ADDRESS_VARIABLE = "MEDLEY_NODE_ADDRESS"
"""Variable of a rented node's environment with its address in its private network."""
_SHOWN_CHARS = 900
_LAST_WORDS_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeSweep:
    engine: str
    weights: str
    """`hf:ORG/NAME`, `package:NAME` or `path:PATH`."""
    dtype: str
    device: torch.device
    tensor_parallel: int
    """Devices that layers are cut over by heads."""
    hidden_size: int
    """Width of the rows that go from stage to stage."""
    pair: str
    """`first` of two nodes, which measures itself and then what lies between them, `second`, which helps it with that
    alone, or `none`."""
    meet: tuple[str, int] | None
    """Host and port where the first of the pair waits, for the second."""
    seconds: float
    """How long it may take in all."""

    def parts(self, meet: tuple[str, int] | None, interface: str) -> Iterator[tuple[str, ...]]:
        """Yield each part, as arguments of `agents.profile`. `meet`: the rendezvous of the pair, if it is one."""
        device, width = ("--device", str(self.device)), ("--hidden-size", str(self.hidden_size))
        if self.pair != "second":
            what = "--engine", self.engine, "--weights", self.weights
            yield ("engine", *what, *device, "--tensor-parallel", str(self.tensor_parallel))
            yield ("pipeline", *width)
        if meet is not None:
            patience = ("--patience-s", f"{self.seconds:g}")  # the other may be at its other parts still
            at = ("--meet", f"{meet[0]}:{meet[1]}", "--interface", interface, *patience)
            yield ("pair", *at, *width, *device, *(("--sends",) if self.pair == "second" else ()))

    def lacking(self, gpus: tuple[GpuReport, ...]) -> str:
        """Say what the machine lacks for what is to be measured; empty: nothing."""
        if self.device.type != "cuda":
            return ""
        usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if usable >= self.tensor_parallel:
            return ""
        seen = f"the driver names {len(gpus)} GPUs" if gpus else "no driver of NVIDIA answers"
        return f"torch {torch.__version__} can use {usable} GPUs, and {self.tensor_parallel} are to be measured; {seen}"


class PartFailedError(Exception):
    """A part was not measured; the message says why."""


@dataclass
class _Printer:
    """Prints lines, and counts them."""

    lines: int = 0
    out: IO[str] = field(default_factory=lambda: sys.stdout)

    def __call__(self, said: ToProfiler) -> None:
        self.out.write(line(said) + "\n")
        self.out.flush()
        self.lines += 1


def measure_node(sweep: NodeSweep) -> int:
    """Measure what is asked for. Return the exit status: 0 where all of it was measured."""
    say, end_s = _Printer(), time.monotonic() + sweep.seconds
    gpus = asyncio.run(read_gpus())
    say(_machine(sweep, gpus))
    if lacking := sweep.lacking(gpus):
        say(Failed("machine", lacking[:_SHOWN_CHARS]))
        return 1
    interface, meet = os.environ.get(ADDRESS_VARIABLE, "127.0.0.1"), sweep.meet
    with ExitStack() as stack:
        if sweep.pair == "first":
            meeting = stack.enter_context(closing(Rendezvous(interface)))
            meet = meeting.address
            say(Meeting(*meet))
        for part in sweep.parts(meet, interface):
            try:
                for each in _lines_of(part, sweep.dtype, end_s):
                    say(Measured(part[0], msgspec.Raw(each)))
            except PartFailedError as error:
                say(Failed(part[0], str(error)[-_SHOWN_CHARS:]))
                return 1
    say(Done(say.lines))
    return 0


def _machine(sweep: NodeSweep, gpus: tuple[GpuReport, ...]) -> Machine:
    device = "cuda" if sweep.device.type == "cuda" and torch.cuda.is_available() else "cpu"
    releases = tuple(f"{name} {found}" for name in ENGINES[sweep.engine].distributions if (found := _version(name)))
    cores = float(len(os.sched_getaffinity(0)))
    return Machine(device, gpus, asyncio.run(read_driver()), processor_name(), cores, releases)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _lines_of(part: tuple[str, ...], dtype: str, end_s: float) -> Iterator[bytes]:
    """Yield the lines of a part as it writes them. Raises PartFailedError where it fails, or is not done at `end_s` of
    the monotonic clock."""
    reads, writes = os.pipe()
    command = (sys.executable, "-m", "agents.profile", "--out", f"/dev/fd/{writes}", "--dtype", dtype, *part)
    child = subprocess.Popen(command, pass_fds=(writes,), stderr=subprocess.PIPE, text=True)
    os.close(writes)
    last_words: list[str] = []
    listener = threading.Thread(target=_pass_on, args=(child, last_words), daemon=True)
    listener.start()
    late = threading.Timer(max(0.0, end_s - time.monotonic()), child.kill)
    late.start()
    try:
        with os.fdopen(reads, "rb") as lines:
            yield from (each.rstrip(b"\n") for each in lines)
        status = child.wait()
        listener.join(_LAST_WORDS_S)  # what it has started itself may hold its end open
    finally:
        late.cancel()
        child.kill()
        child.wait()
    if status:
        if time.monotonic() >= end_s:
            raise PartFailedError(f"it was not done in the time that it had; last: {_last(last_words)}")
        raise PartFailedError(_last(last_words) if last_words else f"it ended with status {status} without a word")


def _pass_on(child: "subprocess.Popen[str]", last_words: list[str]) -> None:
    """Print what a part says beside its lines, for the log, and keep the end of it."""
    if child.stderr is not None:
        for text in child.stderr:
            sys.stderr.write(text)
            if text.strip():
                last_words[:] = [*last_words[-4:], text.strip()]


def _last(words: list[str]) -> str:
    return words[-1] if words else "nothing"
