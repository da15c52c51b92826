"""Tokens of pictures and clips, before anything is decoded: what gateway, planner, simulator and engine count by."""

from templates_lib.graphs.component import Component, EncoderSpec, Modality
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.media.image_layout import ImageLayout, ImageRule

_HEARD_PER_S, _HOP = 16_000, 160
"""Samples a second, and of a mel frame, of Whisper's feature extractor and those made after it."""


class NoSuchMediaError(ValueError):
    """The model reads nothing of the kind; the message names the model."""


def image_rule(graph: ModelGraph) -> ImageRule:
    """How the model has pictures cut. Raises NoSuchMediaError for one that reads none."""
    for component in graph.components:
        if isinstance(component.spec, EncoderSpec) and component.spec.images is not None:
            return component.spec.images
    raise NoSuchMediaError(f"{graph.id}: reads no images")


def image_layout(graph: ModelGraph, width: int, height: int) -> ImageLayout:
    """What becomes of a picture of `width` by `height` pixels, upright. Raises NoSuchMediaError, and ImageSizeError for
    a size that the model does not read."""
    return image_rule(graph).layout(width, height)


def clip_tokens(graph: ModelGraph, seconds: float) -> float:
    """Tokens that the model hears a clip of audio as, padded as it is computed. Raises NoSuchMediaError."""
    return hearing(graph).clip_units(seconds)


def hearing(graph: ModelGraph) -> Component:
    """What the model hears by. Raises NoSuchMediaError for one that hears nothing."""
    for component in graph.components:
        if isinstance(component.spec, EncoderSpec) and component.reads is Modality.AUDIO:
            return component
    raise NoSuchMediaError(f"{graph.id}: hears no audio")


def heard_rows(by: Component, frames: int, rate: int) -> int:
    """Rows that an encoder makes of a clip of so many samples of a channel, `rate` of them a second, once it is at the
    rate that encoders hear: one for each window, or by the mel frames that have begun, which a convolution halves and
    means halve again (`Qwen2_5OmniAudioEncoder` in transformers' modelling code)."""
    if by.padded_units:
        return round(by.clip_units(frames / rate))
    samples = -(-frames * _HEARD_PER_S // rate)
    mel = -(-samples // _HOP)
    return (mel + 1) // 2 // round(_HEARD_PER_S / _HOP / 2 / by.units_per_second)
