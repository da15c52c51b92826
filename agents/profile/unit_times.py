"""Measures how long an encoder takes for pictures and clips of given sizes, and a generator for answers."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import assert_never

from agents.engines.components.protocol import EncoderEngine
from agents.engines.components.stepped import Asked, SteppedEngine
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
    yield from _blocks([(takes.rows_out(unit), partial(engine.encode, [unit])) for unit in units])


def measured_answers(engine: SteppedEngine, units: Sequence[int], item_rows: float = 0.0) -> Iterator[UnitBlock]:
    """The same of a generator's answers of about so many units: seconds of speech, or denoising steps of a picture of
    `item_rows` rows of latents. What counts is the units that came."""
    asked = [engine.example(each, item_rows) for each in units]
    yield from _blocks([(_made(engine, each) * (item_rows or 1.0), partial(_made, engine, each)) for each in asked])


def _blocks(calls: Sequence[tuple[float, Callable[[], object]]]) -> Iterator[UnitBlock]:
    """`calls`: size of a unit, and what computes it."""

    def once(call: Callable[[], object]) -> tuple[int, float]:
        call()
        return 1, 0.0

    for _ in range(BLOCKS):
        for size, call in calls:
            wall_s, cpu_s = block_seconds(partial(once, call))
            yield UnitBlock(float(size), wall_s, cpu_s)


def _made(engine: SteppedEngine, asked: Asked) -> float:
    """Make an answer, and return its units."""
    answer, units = engine.begin(asked), 0.0
    while not answer.is_done:
        units += sum(piece.units for piece in engine.step([answer]) if piece is not None)
    return units


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
