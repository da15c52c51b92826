"""Tokens of pictures and clips, before anything is decoded: what gateway, planner, simulator and engine count by."""

from templates_lib.graphs.component import Component, EncoderSpec, Modality
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.media.image_layout import ImageLayout, ImageRule


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
