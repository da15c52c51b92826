"""Rows that a node writes when it measures itself."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Header:
    """First line of a file."""

    lines: int
    """Number of rows that follow."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A step of one engine that was alone on its node, repeated. Counts are of the whole step."""

    layers: int
    first: bool
    """The token embedding was held."""
    last: bool
    """The final norm and LM head were held."""
    prompt_tokens: int
    prompt_context: float
    """Mean number of earlier tokens that a prompt token attended to."""
    decode_requests: int
    decode_context: float
    """Mean tokens in the cache of those requests."""
    seconds: float
    """Mean of the repetitions."""
    held_out: bool
    """True for a row that is not fitted: the fit is judged by it."""


@dataclass(frozen=True, slots=True)
class ProfileBlock:
    """Repetitions of a step one behind the other, one of several such blocks."""

    row: ProfileRow
    """Row with the seconds on the clock."""
    cpu_s: float
    """Processor time of one repetition."""


def rows_of(blocks: Iterable[ProfileBlock], cpu_cores: float) -> tuple[ProfileRow, ...]:
    """Return each step once, with the mean of its blocks: what a pipeline of many steps sees of it.

    On a node that has `cpu_cores` ≤ 1 processors the mean is at most the processor time over its share: what takes
    longer on the clock was taken by others, who kept the node from its quota. With more processors, it is the time on
    the clock.
    """
    found: dict[ProfileRow, list[ProfileBlock]] = {}
    for block in blocks:
        found.setdefault(replace(block.row, seconds=0.0), []).append(block)
    return tuple(replace(step, seconds=_seconds(held, cpu_cores)) for step, held in found.items())


def _seconds(blocks: list[ProfileBlock], cpu_cores: float) -> float:
    wall_s = fmean(block.row.seconds for block in blocks)
    return wall_s if cpu_cores > 1 else min(wall_s, fmean(block.cpu_s for block in blocks) / cpu_cores)
