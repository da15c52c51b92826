"""Measures how long an encoder takes for pictures and clips of given sizes."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from agents.engines.components.protocol import EncoderEngine
from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import Clips, Patches, Pixels, Samples, Tiles, UnitKind
from agents.profile.measure import BLOCKS, block_seconds
from templates_lib.values.component_profile import UnitBlock

AnyKind = Clips | Patches | Pixels | Samples | Tiles


def measured_units(engine: EncoderEngine, rows: Sequence[int]) -> Iterator[UnitBlock]:
    """Encode a unit of about each number of rows BLOCKS times for a while, all of them in turns, as steps of decoders
    are measured. Each has been encoded before it counts."""
    takes = engine.facts.takes
    units = [example_of(takes, size) for size in rows]
    for unit in units:
        engine.encode([unit])
    for _ in range(BLOCKS):
        for unit in units:
            wall_s, cpu_s = block_seconds(lambda unit=unit: _once(engine, unit))  # type: ignore[misc]
            yield UnitBlock(float(takes.rows_out(unit)), wall_s, cpu_s)


def example_of(takes: UnitKind, rows: int) -> EncoderUnit:
    """Make a unit of noise of which about so many rows come, as near as its kind goes. Raises TypeError for a kind that
    is not known."""
    if not isinstance(takes, AnyKind):
        raise TypeError(f"no example of units of kind {type(takes).__name__}")
    match takes:
        case Samples():
            return takes.example(takes.most // takes.samples_per_s, 0)
        case Clips():
            second = takes.example(1, 0)
            return takes.example(max(1, round(rows / takes.rows_out(second))), 0)
        case Patches():
            return takes.example(rows, 0)
        case Tiles():
            return takes.example(max(1, round(rows / takes.rows)), 0)
        case Pixels():
            return takes.example(max(1, round((rows - 1) ** 0.5)), 0)
        case _:
            assert_never(takes)


def _once(engine: EncoderEngine, unit: EncoderUnit) -> tuple[int, float]:
    engine.encode([unit])
    return 1, 0.0
