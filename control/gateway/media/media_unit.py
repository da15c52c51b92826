"""A picture or a sound of a request as an encoder's unit: the bytes, what its header says, the rows that it becomes."""

import hashlib
from dataclasses import dataclass, field

from agents.messages.component_work import Grid
from templates_lib.graphs.component import Modality
from templates_lib.media.image_format import ImageHeader
from templates_lib.media.wav_header import WavHeader
from templates_lib.values.work import Unit


@dataclass(frozen=True, slots=True)
class MediaUnit:
    modality: Modality
    header: ImageHeader | WavHeader
    data: bytes = field(repr=False)
    """As its client sent it: what it is made again from when an executor is lost."""
    key: str
    """Hash of the bytes, and of how they are prepared."""
    rows: int
    """That its encoder gives."""
    prompt_tokens: int
    """Tokens that stand for it in the prompt."""
    patches: Grid | None = None
    """Grid of patches, where the encoder takes some."""
    places: Grid | None = None
    """Grid of the rows, for decoders whose tokens have three positions."""


@dataclass(frozen=True, slots=True)
class MediaUnits:
    """All that a request brings beside text, in the order of its parts."""

    units: tuple[MediaUnit, ...]

    @property
    def pictures(self) -> int:
        """Count the tokens of pictures."""
        return sum(unit.prompt_tokens for unit in self.units if unit.modality is Modality.IMAGE)

    @property
    def sounds(self) -> int:
        return sum(unit.prompt_tokens for unit in self.units if unit.modality is Modality.AUDIO)

    @property
    def rows(self) -> dict[Unit, int]:
        """Rows that encoders make, in the units that they count them in."""
        found: dict[Unit, int] = {}
        for unit in self.units:
            of = Unit.IMAGE_TOKEN if unit.modality is Modality.IMAGE else Unit.AUDIO_TOKEN
            found[of] = found.get(of, 0) + unit.rows
        return found

    def of(self, modality: Modality) -> tuple[int, ...]:
        """List the places of units of a kind."""
        return tuple(place for place, unit in enumerate(self.units) if unit.modality is modality)


def content_key(form: bytes, data: bytes) -> str:
    """Hash of the bytes, and of how they are prepared (`form`)."""
    digest = hashlib.sha256(form)
    digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()
