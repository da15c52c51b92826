"""What a node that measures itself tells whoever rented it: lines of what it prints, which are read in its log.

It is not connected to anybody: to be read, its log does, so that whoever measures needs no address that nodes reach.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from agents.messages.to_hub import MAX_GPUS, GpuReport

MARK = "medley-profile "
"""Begins each such line, behind what others put before it: SkyPilot names the job."""
MAX_LINE = 1 << 16
"""Characters of a line; longer ones are nobody's."""
MAX_LINES = 5_000
"""Lines of one node: a sweep has a few hundred."""

_Text = Annotated[str, Meta(max_length=1000)]
_Part = Annotated[str, Meta(max_length=64)]


class Machine(Struct, frozen=True, tag="machine"):
    """The node, before anything is measured."""

    device: Annotated[str, Meta(max_length=16)]
    """Kind of device that is measured, `cuda` or `cpu`: of what was found, not of what was asked for."""
    gpus: Annotated[tuple[GpuReport, ...], Meta(max_length=MAX_GPUS)]
    """GPUs as the driver names them, whether or not they can be used."""
    driver: _Text
    """Release of NVIDIA's driver; empty: there is none."""
    processor: _Text
    cpu_cores: Annotated[float, Meta(gt=0, le=100_000)]
    """Processors that its programs may use."""
    releases: Annotated[tuple[_Text, ...], Meta(max_length=16)]
    """`NAME VERSION` of what decides the step times of the engine."""


class Meeting(Struct, frozen=True, tag="meeting"):
    """It waits for the other node of a pair."""

    host: _Text
    port: Annotated[int, Meta(ge=1, le=65535)]


class Measured(Struct, frozen=True, tag="measured"):
    """A line that a part wrote, as `agents.profile --out` does; the first is its `Header`."""

    part: _Part
    line: msgspec.Raw


class Failed(Struct, frozen=True, tag="failed"):
    """It ends: a part could not be measured."""

    part: _Part
    why: _Text


class Done(Struct, frozen=True, tag="done"):
    """It ends: everything is measured."""

    lines: Annotated[int, Meta(ge=0, le=MAX_LINES)]
    """Number of lines that it has printed before this one."""


ToProfiler = Machine | Meeting | Measured | Failed | Done

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ToProfiler)


def line(said: ToProfiler) -> str:
    """Return the line to print."""
    return MARK + _encoder.encode(said).decode()


def said_in(log: str) -> Iterator[ToProfiler]:
    """Yield what the lines of a log say, in their order. A line that is cut off, as the last one of a log that is being
    written, says nothing."""
    for text in log.splitlines():
        _, mark, said = text.partition(MARK)
        if mark and len(said) <= MAX_LINE:
            try:
                yield _decoder.decode(said.strip())
            except msgspec.DecodeError:
                continue
