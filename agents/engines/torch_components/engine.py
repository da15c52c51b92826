"""The torch engine of encoders and generators."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch

from agents.engines.components.checks import check_codec_units, check_units
from agents.engines.components.codes import CodecUnit
from agents.engines.components.facts import EncoderFacts, GeneratorFacts
from agents.engines.components.protocol import Rows, Sound
from agents.engines.components.unit import EncoderUnit
from agents.engines.errors import BadBatchError, OutOfMemoryError
from agents.engines.torch_components.dinov2 import read_dinov2
from agents.engines.torch_components.internvl_vision import read_intern_vision
from agents.engines.torch_components.loading import Limits, load_component
from agents.engines.torch_components.omni_hearing import read_omni_hearing
from agents.engines.torch_components.omni_vocoder import OmniVocoder, read_omni_vocoder
from agents.engines.torch_components.qwen_vision import read_qwen_vision
from agents.engines.torch_components.read_encoder import Encode, ReadEncoder
from agents.engines.torch_components.whisper_encoder import read_whisper_encoder
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.weights.checkpoint import Checkpoint
from templates_lib.models.config_fields import Fields

ENCODERS: dict[tuple[str, str], Callable[[Fields, LayerReader], ReadEncoder]] = {
    ("dinov2", "vision"): read_dinov2,
    ("internvl", "vision"): read_intern_vision,
    ("qwen2_5_omni", "hearing"): read_omni_hearing,
    ("qwen2_5_omni", "vision"): read_qwen_vision,
    ("qwen2_5_vl", "vision"): read_qwen_vision,
    ("whisper", "hearing"): read_whisper_encoder,
}
GENERATORS: dict[tuple[str, str], Callable[[Fields, LayerReader], OmniVocoder]] = {
    ("qwen2_5_omni", "vocoder"): read_omni_vocoder,
}
_DEFAULT = Limits()


def load_torch_encoder(
    checkpoint: Checkpoint, component: str, dtype: torch.dtype, device: torch.device, limits: Limits = _DEFAULT
) -> "TorchEncoder":
    """Loads `component` of a model, and nothing else of its checkpoint. Raises what `load_component` does, and
    OutOfMemoryError where there is no room for a single unit."""
    encoder, facts = load_component(checkpoint, component, ENCODERS, dtype, device, limits)
    smallest = encoder.takes.rows_in(encoder.takes.example(1, 0))
    if limits.takes_fewer and smallest > facts.most_rows:
        raise OutOfMemoryError(
            f"{component} of {facts.family} has memory for {facts.most_rows} rows beside its weights, and its smallest "
            f"unit is {smallest}: allow more memory"
        )
    return TorchEncoder(EncoderFacts(**asdict(facts), takes=encoder.takes, row_width=encoder.row_width), encoder.encode)


def load_torch_generator(
    checkpoint: Checkpoint, component: str, dtype: torch.dtype, device: torch.device, limits: Limits = _DEFAULT
) -> "TorchGenerator":
    """The same for a generator of speech."""
    vocoder, facts = load_component(checkpoint, component, GENERATORS, dtype, device, limits)
    return TorchGenerator(GeneratorFacts(**asdict(facts), takes=vocoder.takes), vocoder)


class TorchEncoder:
    """An EncoderEngine of torch's operations."""

    def __init__(self, facts: EncoderFacts, encode: Encode) -> None:
        self.facts = facts
        self._encode: Encode | None = encode

    @torch.inference_mode()
    def encode(self, units: Sequence[EncoderUnit]) -> list[Rows]:
        if self._encode is None:
            raise BadBatchError("the engine is closed")
        check_units(self.facts, units)
        return [rows.to("cpu", torch.float32).numpy() for rows in self._encode(units)]

    def close(self) -> None:
        self._encode = None


class TorchGenerator:
    """A GeneratorEngine of torch's operations."""

    def __init__(self, facts: GeneratorFacts, vocoder: OmniVocoder) -> None:
        self.facts = facts
        self._vocoder: OmniVocoder | None = vocoder

    @torch.inference_mode()
    def generate(self, units: Sequence[CodecUnit]) -> list[Sound]:
        if self._vocoder is None:
            raise BadBatchError("the engine is closed")
        check_codec_units(self.facts, units)
        return [sound.to("cpu", torch.float32).numpy() for sound in self._vocoder(units)]

    def close(self) -> None:
        self._vocoder = None
