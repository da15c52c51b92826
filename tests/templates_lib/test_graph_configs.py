"""Published configs of any-to-any models are read as graphs, whose sizes are those of the real networks."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import InternVLForConditionalGeneration

from templates_lib.graphs.catalogue import graph_facts, graph_names, load_graph
from templates_lib.graphs.component import ComponentKind
from templates_lib.graphs.media_tokens import image_layout
from templates_lib.graphs.read import graph_from_config
from templates_lib.graphs.request_type import possible_types
from templates_lib.models.config_fields import UnsupportedModelError
from tests.agents.engines.components.tiny_graphs import INTERNVL

COUNTED = {
    "qwen2.5-vl-32b": {"vision": 688_841_984},
    "qwen2.5-omni-7b": {
        "vision": 676_550_144,
        "hearing": 639_647_232,
        "talker": 1_351_360_256,
        "vocoder": 449_051_264,
    },
    "qwen3-omni-30b-a3b": {
        "vision": 538_631_408,
        "hearing": 647_927_168,
        "talker": 3_324_596_480,
        "vocoder": 216_016_577,
    },
    "whisper-tiny.en": {"hearing": 8_208_384, "writing": 29_551_872},
    "whisper-large-v3": {"hearing": 636_968_960, "writing": 906_521_600},
    "llama-3.2-11b-vision": {"vision": 895_028_755, "language": 9_775_192_080},
    "llama-3.2-90b-vision": {"vision": 926_490_131, "language": 87_666_865_192},
    "llava-onevision-7b": {"vision": 414_732_320, "language": 7_615_616_512},
    "idefics3-8b": {"vision": 431_800_560, "language": 8_030_285_824},
    "smolvlm-256m": {"vision": 93_510_912, "language": 162_974_016},
}
"""Parameters of the modules that transformers 5.17.0 builds of these configs on its meta device."""
PUBLISHED = {
    "internvl3-38b": 38.4e9,
    "qwen2.5-vl-7b": 8.29e9,
    "qwen2.5-vl-32b": 33.5e9,
    "qwen2.5-omni-7b": 10.7e9,
    "qwen3-omni-30b-a3b": 35.3e9,
    "whisper-large-v3": 1.54e9,
    "llama-3.2-11b-vision": 10.67e9,
    "llama-3.2-90b-vision": 88.6e9,
    "llava-onevision-7b": 8.03e9,
    "llava-onevision-72b": 73.2e9,
    "internvl2.5-26b": 25.5e9,
    "nvlm-d-72b": 79.4e9,
    "idefics3-8b": 8.46e9,
    "smolvlm-256m": 0.256e9,
    "kokoro-82m": 81.76e6,
}
"""Parameters of whole models, as their pages on the hub show them."""


@pytest.mark.parametrize("name", COUNTED)
def test_components_have_as_many_weights_as_the_real_modules(name: str) -> None:
    graph = load_graph(name)
    for component, parameters in COUNTED[name].items():
        assert graph.component(component).weight_bytes / 2 == pytest.approx(parameters, rel=0.007), component


@pytest.mark.parametrize("name", PUBLISHED)
def test_whole_models_have_as_many_weights_as_published(name: str) -> None:
    assert load_graph(name).weight_bytes / 2 == pytest.approx(PUBLISHED[name], rel=0.005)


@pytest.mark.parametrize("pooled", [True, False])
def test_a_config_in_the_form_of_transformers_is_of_the_same_network(pooled: bool) -> None:
    config = copy.deepcopy(INTERNVL)
    config.vision_config.use_mean_pooling = pooled
    with torch.device("meta"):
        model = InternVLForConditionalGeneration(config).model
    graph = graph_from_config(config.to_dict(), "tiny", "r")
    parts = (model.vision_tower, model.multi_modal_projector)
    parameters = sum(each.numel() for part in parts for each in part.parameters())
    assert graph.component("vision").weight_bytes / 2 == pytest.approx(parameters, rel=0.007)


@pytest.mark.parametrize(
    ("look", "tiles", "tokens"),
    [
        (None, 3, 14),
        ({"max_patches": 1}, 1, 6),
        ({"crop_to_patches": False, "tokens_around": 0}, 1, 4),
    ],
)
def test_pictures_of_a_config_in_the_form_of_transformers(look: dict[str, Any] | None, tiles: int, tokens: int) -> None:
    config = INTERNVL.to_dict() | ({} if look is None else {"preprocessor_config": look})
    layout = image_layout(graph_from_config(config, "tiny", "r"), 56, 28)
    assert (layout.tiles, layout.prompt_tokens) == (tiles, tokens)


def test_the_image_model_has_a_denoiser_of_twenty_billion_weights() -> None:
    graph = load_graph("qwen-image")
    assert graph.component("picture").weight_bytes / 2 == pytest.approx(20.43e9 + 73.3e6, rel=0.001)
    assert graph.component("text").kind is ComponentKind.DECODER


def test_an_omni_model_answers_eight_types_of_request() -> None:
    types = possible_types(load_graph("qwen2.5-omni-7b"))
    assert len(types) == 8  # the rows of the Cornserve paper's Table 2, with videos as images
    assert types["text-to-text"] == {"thinker"}
    assert types["image-audio-text-to-audio"] == {"vision", "hearing", "thinker", "talker", "vocoder"}
    assert set(possible_types(load_graph("whisper-tiny.en"))) == {"audio-to-text"}
    assert set(possible_types(load_graph("qwen-image"))) == {"text-to-image"}
    assert set(possible_types(load_graph("word-pictures"))) == {"text-to-image"}
    assert set(possible_types(load_graph("kokoro-82m"))) == {"text-to-audio"}


def test_edges_carry_what_the_networks_send() -> None:
    edges = {edge.name: edge for edge in load_graph("qwen3-omni-30b-a3b").edges}
    # An image token has a row in the prompt and three for deeper layers; a codec token has sixteen codebooks.
    assert edges["vision -> thinker"].bytes_per_unit == 4 * 2048 * 2
    assert edges["talker -> vocoder"].bytes_per_unit == 16 * 4
    assert edges["thinker -> talker"].stream
    assert not edges["vision -> thinker"].required


def test_every_graph_names_its_source() -> None:
    for name in graph_names():
        assert re.search(r"\d{4}-\d\d-\d\d", graph_facts(name)["source"])
    with pytest.raises(LookupError, match=r"qwen2\.5-omni-7b"):
        graph_facts("qwen2.5-omni")


def changed(name: str, path: str, value: Any) -> dict[str, Any]:
    """A config with one key set, or left out where the value is None."""
    config = copy.deepcopy(graph_facts(name)["config"])
    *tables, key = path.split(".")
    place = config
    for table in tables:
        place = place[table]
    if value is None:
        del place[key]
    else:
        place[key] = value
    return config


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("qwen2.5-vl-32b", "model_type", "qwen2_5_vll"),
        ("qwen-image", "_class_name", "FluxPipeline"),
        ("qwen2.5-vl-32b", "vision_config", None),
        ("qwen2.5-vl-32b", "vision_config.out_hidden_size", 3584),
        ("qwen2.5-vl-32b", "vision_config.num_heads", 7),
        ("internvl3-38b", "llm_config.hidden_size", "wide"),
        ("internvl3-38b", "downsample_ratio", 0),
        ("internvl3-38b", "vision_config.image_size", 7),
        ("qwen2.5-omni-7b", "thinker_config.text_config.num_hidden_layers", -1),
        ("qwen2.5-omni-7b", "talker_config.embedding_size", 2048),
        ("qwen2.5-omni-7b", "token2wav_config.bigvgan_config.upsample_rates", []),
        ("qwen2.5-omni-7b", "token2wav_config.bigvgan_config.upsample_kernel_sizes", [11, 7]),
        ("qwen3-omni-30b-a3b", "talker_config.num_code_groups", 8),
        ("qwen3-omni-30b-a3b", "code2wav_config.upsample_rates", [0, 5]),
        ("qwen-image", "transformer.joint_attention_dim", 4096),
        ("whisper-tiny.en", "d_model", None),
        ("llama-3.2-11b-vision", "text_config.cross_attention_layers", [3, 40]),
        ("llama-3.2-11b-vision", "text_config.cross_attention_layers", []),
        ("llama-3.2-11b-vision", "vision_config.max_num_tiles", 0),
        ("llava-onevision-7b", "image_grid_pinpoints", [[384, 100]]),
        ("llava-onevision-7b", "image_grid_pinpoints", [[384]]),
        ("llava-onevision-7b", "vision_aspect_ratio", "square"),
        ("internvl2.5-26b", "min_dynamic_patch", 13),
        ("idefics3-8b", "scale_factor", 3),
        ("idefics3-8b", "preprocessor_config.max_image_size.longest_edge", 512),
        ("qwen2.5-vl-7b", "preprocessor_config.max_pixels", 3135),
    ],
)
def test_a_config_that_makes_no_sense_is_refused_with_its_key(name: str, path: str, value: Any) -> None:
    with pytest.raises(UnsupportedModelError) as refused:
        graph_from_config(changed(name, path, value), name, "changed")
    assert refused.value.key.endswith(path)


def leaves(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")


@pytest.mark.parametrize("name", graph_names())
def test_any_key_may_be_anything_and_is_read_or_refused(name: str) -> None:
    refused = 0
    for path in leaves(graph_facts(name)["config"]):
        for junk in (None, 0, 1 << 30, "x", [0], float("nan")):
            try:
                assert graph_from_config(changed(name, path, junk), name, "changed").weight_bytes > 0
            except UnsupportedModelError:
                refused += 1
    assert refused > 20
