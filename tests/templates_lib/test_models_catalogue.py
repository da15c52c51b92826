"""The models that ship with the package are what their publishers say."""

import pytest

from templates_lib.models.catalogue import load_models, measured_configs
from templates_lib.models.hf_config import model_from_hf_config
from tests.templates_lib.active_weights import active_weight_bytes

DEPTHS = {
    "phi-4-14b": 40,
    "gpt-oss-20b": 24,
    "qwen3-32b": 64,
    "llama-3-70b": 80,
    "gpt-oss-120b": 36,
    "qwen3-235b-a22b": 94,
}
SMALL = {"smollm2-135m-instruct": 30}
# Sum of the checkpoints' safetensors files, in 10⁹ bytes (Hugging Face model pages).
PUBLISHED_GB = {
    "phi-4-14b": 29.32,
    "gpt-oss-20b": 13.76,
    "qwen3-32b": 65.52,
    "llama-3-70b": 141.11,
    "gpt-oss-120b": 65.25,
    "qwen3-235b-a22b": 470.19,
}


def test_catalogue_is_table_3_of_the_paper_and_small_models() -> None:
    assert {name: model.layers for name, model in load_models().items()} == DEPTHS | SMALL


def test_a_model_served_in_fp32_takes_four_bytes_of_everything() -> None:
    model = load_models()["smollm2-135m-instruct"]
    assert (model.dtype, model.activation_dtype, model.kv_dtype) == ("fp32",) * 3
    assert model.weight_bytes / 4 == pytest.approx(134.515e6, rel=1e-4)  # parameters, huggingface.co model page
    assert model.kv_bytes_per_token_per_layer == 2 * 3 * 64 * 4
    assert model.activation_element_bytes == 4


@pytest.mark.parametrize("name", sorted(PUBLISHED_GB))
def test_weight_bytes_are_those_of_the_published_checkpoint(name: str) -> None:
    assert load_models()[name].weight_bytes / 1e9 == pytest.approx(PUBLISHED_GB[name], rel=1e-3)


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-oss-120b"])
def test_gpt_oss_alternates_windows_and_stores_experts_in_mxfp4(name: str) -> None:
    model = load_models()[name]
    assert model.windows == (128, 0) * (model.layers // 2)
    assert (model.dtype, model.attention_dtype, model.activation_dtype) == ("mxfp4", "bf16", "bf16")


def test_only_the_mixtures_touch_less_than_they_hold() -> None:
    for model in load_models().values():
        assert (active_weight_bytes(model) < model.weight_bytes) == (model.experts is not None)


def test_every_measured_model_can_be_expressed() -> None:
    for name, config in measured_configs().items():
        model = model_from_hf_config(config, name, "")
        assert len(model.windows) == model.layers
        assert model.weight_bytes > 0
