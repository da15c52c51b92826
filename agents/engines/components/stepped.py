"""The interface to engines that answer clients step by step: with speech a sentence a step, with pictures a denoising
step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.engines.components.facts import ComponentFacts
from agents.messages.component_work import AskedPicture, AskedSpeech

Asked = AskedSpeech | AskedPicture


@dataclass(frozen=True, slots=True)
class SteppedFacts(ComponentFacts):
    is_heard: bool
    """Pieces are heard as they come; else the answer is one piece, there after the last step."""


@dataclass(frozen=True, slots=True)
class Piece:
    data: bytes
    """PCM of 16 bits, little-endian, of one channel; or a PNG."""
    units: float
    """Seconds of audio, or denoising steps."""
    samples_per_s: int = 0
    """Of sound; 0: a picture."""


class SteppedAnswer(Protocol):
    """An answer that has been begun, with what its engine keeps of it. Nothing has to be given back."""

    @property
    def is_done(self) -> bool:
        """Whether all steps are taken."""


class SteppedEngine(Protocol):
    """Weights of one generator. One thread owns it."""

    @property
    def facts(self) -> SteppedFacts:
        """Return what is held; constant for the engine's life. `most_units`: answers that take a step together."""

    def example(self, units: float, item_rows: float = 0.0) -> Asked:
        """Make a request of about so many units, for measurements: seconds of speech, or denoising steps of a picture
        as near to `item_rows` rows of latents as a square one is."""

    def begin(self, asked: Asked, skip: int = 0) -> SteppedAnswer:
        """Begin an answer behind its first `skip` pieces, which costs little. Raises BadBatchError for what the
        component does not make, and where there are no more pieces."""

    def step(self, answers: Sequence[SteppedAnswer]) -> list[Piece | None]:
        """Take the next step of each, and return what is there of it now, in order. The pieces of an answer are the
        same, but for rounding, whatever else takes its steps, and whoever makes them again with the same engine.

        Raises BadBatchError, before anything is computed, for answers of others, those that are done, one that is there
        twice, and more than `most_units`. Raises UnmadeAnswerError where the only answer of the step cannot be made,
        which is done then."""

    def close(self) -> None:
        """Gives all memory back; the engine must not be used after."""
