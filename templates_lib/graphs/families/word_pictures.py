"""Pictures of a few words (`bench.word_pictures`): Qwen-Image's denoiser and autoencoder, steered by a table."""

from dataclasses import replace

from templates_lib.graphs.component import Component, Modality
from templates_lib.graphs.families.parts import WIDEST
from templates_lib.graphs.families.qwen_image import PICTURE, picture_spec
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.values.work import Unit

_MOST_WORDS = 4096


def word_pictures(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    transformer, words = fields.part("transformer"), fields.texts("words", _MOST_WORDS)
    if not words:
        raise UnsupportedModelError("words", "is missing: the words that the model knows")
    width = transformer.integer("joint_attention_dim", low=1, high=WIDEST)
    spec = picture_spec(transformer, fields.part("vae"), width, transformer.integer("patch_size", low=1, high=16))
    assert spec.denoiser is not None  # noqa: S101 - it has one
    table = spec.denoiser.other_weights + (len(words) + 1) * width
    spec = replace(spec, denoiser=replace(spec.denoiser, other_weights=table))
    picture = Component(PICTURE, Unit.DENOISING_STEP, spec, reads=Modality.TEXT, answers=Modality.IMAGE)
    return ModelGraph(id, revision, (picture,), ())
