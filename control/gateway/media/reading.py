"""What a model reads beside text, as its published config has it."""

from contextlib import suppress
from dataclasses import dataclass

from control.gateway.published import MediaTerms
from templates_lib.graphs.component import Component, Modality
from templates_lib.graphs.media_tokens import NoSuchMediaError, hearing, image_rule
from templates_lib.graphs.read import graph_from_config
from templates_lib.media.image_layout import ImageRule


@dataclass(frozen=True, slots=True)
class MediaReading:
    terms: MediaTerms
    images: ImageRule | None = None
    """How pictures are cut; None: it sees none."""
    hears: Component | None = None
    """What hears; None: nothing does."""

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
    return MediaReading(terms, images, hears)
