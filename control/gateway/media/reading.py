"""What a model reads beside text, as its published config has it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec.structs import replace

from agents.messages.to_preprocessor import Layout, PictureForm
from control.gateway.published import MediaTerms
from templates_lib.graphs.component import Component, DecoderSpec, Modality
from templates_lib.graphs.media_tokens import NoSuchMediaError, hearing, image_rule
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.read import graph_from_config
from templates_lib.media.colours import colours_of
from templates_lib.media.image_layout import ImageRule
from templates_lib.media.patch_grid import PatchGrid
from templates_lib.media.rules import AnyRule, name_of
from templates_lib.models.config_fields import UnsupportedModelError

_PREPROCESSOR = "preprocessor_config"
_MARKS = {
    Modality.IMAGE: ("image_token_id", "image_token_index"),
    Modality.AUDIO: ("audio_token_id", "audio_token_index"),
}
"""Keys of a config.json with the token that stands for a picture or a sound in a prompt."""


@dataclass(frozen=True, slots=True)
class MediaReading:
    terms: MediaTerms
    graph: ModelGraph
    images: ImageRule | None = None
    """How pictures are cut; None: it sees none."""
    hears: Component | None = None
    """What hears; None: nothing does."""
    form: PictureForm | None = None
    """How its encoder sees pictures; None: the config does not say what they are normalised by."""
    marks: Mapping[Modality, int] = field(default_factory=dict)
    """Tokens that stand for pictures and sounds in prompts."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end an answer, as the config has them."""
    attends: bool = False
    """Its decoder attends to rows beside its prompt, which have no place in it then (Whisper)."""

    @property
    def modalities(self) -> tuple[Modality, ...]:
        also = ((Modality.IMAGE, self.images), (Modality.AUDIO, self.hears))
        return (Modality.TEXT, *(modality for modality, by in also if by is not None))


def reading_of(terms: MediaTerms) -> MediaReading:
    """The config has been read before, when the terms were made."""
    graph = graph_from_config(terms.config, "model", "published")
    images, hears = None, None
    with suppress(NoSuchMediaError):
        images = image_rule(graph)
    with suppress(NoSuchMediaError):
        hears = hearing(graph)
    attends = any(isinstance(each.spec, DecoderSpec) and each.spec.cross_share > 0 for each in graph.components)
    form = None if images is None else _form(images, terms.config)
    return MediaReading(terms, graph, images, hears, form, _marks(terms.config), _stops(terms.config), attends)


def _form(rule: ImageRule, config: Mapping[str, Any]) -> PictureForm | None:
    said = config.get(_PREPROCESSOR)
    try:
        colours = colours_of(said if isinstance(said, dict) else {})
    except UnsupportedModelError:
        return None
    if not isinstance(rule, AnyRule):
        return None
    layout: Layout = "patches" if isinstance(rule, PatchGrid) else "tiles"
    form = PictureForm(layout, name_of(rule), asdict(rule), colours.mean, colours.deviation)
    if isinstance(rule, PatchGrid):
        return replace(form, frames=_frames(config), patch=rule.patch, merge=rule.merge)
    return form


def _frames(config: Mapping[str, Any]) -> int:
    """Frames of a patch, of a picture that stands still as many equal ones."""
    vision = _part(config).get("vision_config")
    frames = vision.get("temporal_patch_size", 2) if isinstance(vision, dict) else 2
    return int(frames)


def _marks(config: Mapping[str, Any]) -> dict[Modality, int]:
    own = _part(config)
    found = {kind: next((own[key] for key in keys if key in own), None) for kind, keys in _MARKS.items()}
    return {kind: mark for kind, mark in found.items() if isinstance(mark, int)}


def _part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config of what reads: a model that speaks has it within."""
    thinker = config.get("thinker_config")
    return thinker if isinstance(thinker, dict) else config


def _stops(config: Mapping[str, Any]) -> tuple[int, ...]:
    named = config.get("eos_token_id")
    return tuple(each for each in (named if isinstance(named, list) else [named]) if isinstance(each, int))
