"""Reads an any-to-any model from the config that is published with its weights: one registry of architectures."""

from collections.abc import Callable
from typing import Any

from templates_lib.graphs.families.idefics3 import idefics3
from templates_lib.graphs.families.internvl import internvl, internvl_hf, nvlm_d
from templates_lib.graphs.families.kokoro import kokoro
from templates_lib.graphs.families.llama_vision import llama_vision
from templates_lib.graphs.families.llava_onevision import llava_onevision
from templates_lib.graphs.families.qwen3_omni import qwen3_omni
from templates_lib.graphs.families.qwen_image import qwen_image
from templates_lib.graphs.families.qwen_omni import qwen2_5_omni
from templates_lib.graphs.families.qwen_vl import qwen2_5_vl
from templates_lib.graphs.families.whisper import whisper
from templates_lib.graphs.families.word_pictures import word_pictures
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.values.nearest_name import nearest_name

Reader = Callable[[Fields, str, str], ModelGraph]

READERS: dict[str, Reader] = {
    "qwen2_5_vl": qwen2_5_vl,
    "internvl": internvl_hf,
    "internvl_chat": internvl,
    "NVLM_D": nvlm_d,
    "mllama": llama_vision,
    "llava_onevision": llava_onevision,
    "idefics3": idefics3,
    "smolvlm": idefics3,
    "qwen2_5_omni": qwen2_5_omni,
    "qwen3_omni_moe": qwen3_omni,
    "QwenImagePipeline": qwen_image,
    "whisper": whisper,
    "kokoro": kokoro,
    "style_text_to_speech_2": kokoro,
    "word_pictures": word_pictures,
}
"""Architecture → reader: `model_type` of a config.json, or `_class_name` of a model_index.json of diffusers."""


def graph_from_config(config: dict[str, Any], id: str, revision: str) -> ModelGraph:  # noqa: A002
    """The graph that a published config describes, named `id` at `revision`.

    Raises UnsupportedModelError with the key of the config that is missing, wrong or not known.
    """
    fields = Fields.of(config, "")
    key = "model_type" if fields.name_of("model_type") else "_class_name"
    if fields.name_of(key) is None:
        raise UnsupportedModelError("model_type", "is missing, and so is `_class_name`")
    architecture = fields.text(key, "")
    reader = READERS.get(architecture)
    if reader is None:
        hint = nearest_name(architecture, READERS)
        raise UnsupportedModelError(key, f"{architecture!r} is not known as an any-to-any model; {hint}")
    return reader(fields, id, revision)
