"""The interfaces to engines that hold an encoder, or a generator."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agents.engines.components.codes import CodecUnit
from agents.engines.components.facts import EncoderFacts, GeneratorFacts
from agents.engines.components.unit import EncoderUnit

Rows = NDArray[np.float32]
"""(rows, `facts.row_width`)"""
Sound = NDArray[np.float32]
"""(samples,) from -1 to 1."""


class EncoderEngine(Protocol):
    """Weights of one component. One thread owns it; batches are computed one after another, and nothing is kept
    between them, so a unit may be sent again anywhere."""

    @property
    def facts(self) -> EncoderFacts:
        """Return what is held; constant for the engine's life."""

    def encode(self, units: Sequence[EncoderUnit]) -> list[Rows]:
        """Return the rows of each unit, in order: `facts.takes.rows_out(unit)` of them, which do not depend on what
        else is in the batch but for rounding. Raises BadBatchError before anything is computed."""

    def close(self) -> None:
        """Gives all memory back; the engine must not be used after."""


class GeneratorEngine(Protocol):
    """The same for what makes speech of codec tokens."""

    @property
    def facts(self) -> GeneratorFacts:
        """Return what is held; constant for the engine's life."""

    def generate(self, units: Sequence[CodecUnit]) -> list[Sound]:
        """Return the sound of each unit, in order: `facts.takes.samples_out(unit)` samples, which do not depend on
        what else is in the batch but for rounding. Raises BadBatchError before anything is computed."""

    def close(self) -> None:
        """Gives all memory back; the engine must not be used after."""
