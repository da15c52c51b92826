"""A component of an any-to-any model: an encoder, a decoder or a generator, with what it computes (Cornserve, 2.1)."""

import math
from dataclasses import dataclass
from enum import StrEnum

from templates_lib.graphs.network import Network
from templates_lib.media.image_layout import ImageRule
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.work import Unit

ELEMENT_BYTES = 2.0
"""Bytes of a weight and of an element of a row: the models read here are published in 16 bits."""


class ComponentKind(StrEnum):
    ENCODER = "encoder"
    """Turns an image or a clip into rows, all at once."""
    DECODER = "decoder"
    """Reads a prompt into a KV cache and writes tokens one by one."""
    GENERATOR = "generator"
    """Turns rows or tokens into an image or audio."""


class Modality(StrEnum):
    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    network: Network
    images: ImageRule | None = None
    """How pictures are cut for it, and which tokens they become; None: it reads none."""

    @property
    def weight_bytes(self) -> float:
        return self.network.weights * ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    model: ModelSpec
    cross_share: float = 0.0
    """Keys and values of a row of an encoder, in those of a token, where layers attend to rows apart from the text: 1
    where each of them does so beside the text (Whisper), 8 / 32 where 8 of 40 do so in its place (Llama 3.2 Vision).
    0: rows stand in the prompt, as tokens do."""
    beside: Network | None = None
    """A smaller network that follows each step, such as the predictor of a token's further codebooks (Qwen3-Omni)."""
    beside_passes: int = 0
    """Passes of `beside` after one another for each token."""
    other_weight_bytes: float = 0.0
    """Projections of what other components send, and what an embedding of another width has more."""

    @property
    def weight_bytes(self) -> float:
        beside = self.beside.weights * ELEMENT_BYTES if self.beside is not None else 0.0
        return self.model.weight_bytes + beside + self.other_weight_bytes


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """A denoiser that is passed many times (a diffusion transformer), and a network that is passed once: the decoder of
    a variational autoencoder, or a vocoder. Both count rows of latents or mel frames."""

    decoder: Network
    denoiser: Network | None = None
    passes: int = 0
    """Passes of the denoiser for each item; 0: requests say how many, and a pass is the unit."""
    pixels_per_row: int = 0
    """Pixels of an image for each row of latents; 0: no images are made."""

    @property
    def weight_bytes(self) -> float:
        denoiser = self.denoiser.weights if self.denoiser is not None else 0.0
        return (self.decoder.weights + denoiser) * ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    """Unique in its graph: letters, digits, `-` and `_`."""
    unit: Unit
    """What its work is counted in. Decoders that write no tokens count those of the prompt."""
    spec: EncoderSpec | DecoderSpec | GeneratorSpec
    takes: int = 0
    """Width of the rows (elements, or codebooks of a token) that it takes from other components; 0: it takes none."""
    gives: int = 0
    """Width of the rows that it gives to others; 0: it gives none."""
    reads: Modality | None = None
    """What it makes of a request, beside what other components give it."""
    answers: Modality | None = None
    """What clients get of it."""
    units_per_second: float = 0.0
    """Tokens that a second of audio is, for what hears or speaks; 0 for what does not."""
    padded_units: float = 0.0
    """Units that each image or clip is padded to a multiple of; 0: it is not."""

    @property
    def kind(self) -> ComponentKind:
        match self.spec:
            case EncoderSpec():
                return ComponentKind.ENCODER
            case DecoderSpec():
                return ComponentKind.DECODER
            case GeneratorSpec():
                return ComponentKind.GENERATOR

    @property
    def weight_bytes(self) -> float:
        """Bytes of weights that a whole replica holds."""
        return self.spec.weight_bytes

    def clip_units(self, seconds: float) -> float:
        """Units of a clip of audio, for what hears or speaks."""
        return self.padded(seconds * self.units_per_second)

    def padded(self, units: float) -> float:
        """Units of one image or clip as it is computed."""
        return math.ceil(units / self.padded_units) * self.padded_units if self.padded_units else units


@dataclass(frozen=True, slots=True)
class ComponentWork:
    """What one request asks of one component."""

    units: float
    """In the component's unit: tokens out, denoising steps, seconds of audio."""
    items: float = 1.0
    """Images, clips or answers that the units belong to: rows attend within one of them."""
    context_tokens: float = 0.0
    """Tokens that it reads first: a decoder's prompt, or the text that steers a denoiser."""
    item_rows: float = 0.0
    """Rows of latents of one image, for a denoiser whose unit is a step; 0 where units say the rows."""
    cross_tokens: float = 0.0
    """Tokens whose keys and values are as large as those of the rows that a decoder attends to apart from the text."""
