"""Reading config.json of any decoder, friendly or not."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from templates_lib.models.catalogue import measured_configs
from templates_lib.models.config_fields import UnsupportedModelError
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from tests.templates_lib.active_weights import active_weight_bytes

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
DEEPSEEK = measured_configs()["deepseek-ai/DeepSeek-V3"]


def model(**changes: Any) -> ModelSpec:
    return model_from_hf_config({**LLAMA, **changes}, "m", "r")


def test_dense_model_has_its_published_parameters() -> None:
    assert model().weight_bytes / 2 == pytest.approx(8.030e9, rel=1e-3)  # Llama 3.1 8B


def test_mixtral_has_its_published_parameters() -> None:
    changes = {"vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2, "model_type": "mixtral"}
    mixtral = model(**changes)
    assert mixtral.weight_bytes / 2 == pytest.approx(46.70e9, rel=1e-3)
    assert active_weight_bytes(mixtral) / 2 == pytest.approx(12.88e9, rel=1e-2)


def test_deepseek_keeps_a_latent_cache_and_leading_dense_layers() -> None:
    deepseek = model_from_hf_config(DEEPSEEK, "deepseek", "")
    assert (deepseek.dense_layers, deepseek.kv_bytes_per_token_per_layer) == (3, (512 + 64) * 2)
    assert deepseek.weight_bytes == pytest.approx(673e9, rel=5e-3)  # 671 B parameters in fp8, embeddings in bf16
    assert active_weight_bytes(deepseek) == pytest.approx(39e9, rel=3e-2)  # 37 B and two bf16 matrices


def test_linear_attention_is_a_window_as_large_as_its_state() -> None:
    qwen = model_from_hf_config(measured_configs()["Qwen/Qwen3.5-397B-A17B"], "qwen", "")
    state_bytes = 64 * 128 * 128 * 4
    assert set(qwen.windows) == {0, state_bytes // int(qwen.kv_bytes_per_token_per_layer)}


def test_sparse_attention_limits_what_is_attended_not_what_is_kept() -> None:
    glm = model_from_hf_config(measured_configs()["zhipuai/GLM-5"], "glm", "")
    assert glm.attended_tokens == 2048
    assert set(glm.windows) == {0}


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"sliding_window": 4096}, {4096}),
        ({"sliding_window": 4096, "use_sliding_window": False}, {0}),
        ({"sliding_window": None}, {0}),
        ({"sliding_window": 512, "sliding_window_pattern": 4}, {0, 512}),
        ({"sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 16}, {0, 512}),
        ({"attention_chunk_size": 8192, "layer_types": ["chunked_attention"] * 32}, {8192}),
    ],
)
def test_windows_are_read_from_every_spelling(changes: dict[str, Any], windows: set[int]) -> None:
    assert set(model(**changes).windows) == windows


def test_every_fourth_layer_is_full_under_a_pattern_of_four() -> None:
    assert model(sliding_window=512, sliding_window_pattern=4).windows[:4] == (512, 512, 512, 0)


@pytest.mark.parametrize(
    ("quantization", "dtype", "activation", "bytes_per_weight"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", "fp8", 1.0),
        ({"quant_method": "mxfp4"}, "mxfp4", "bf16", 17 / 32),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", "bf16", 0.5195),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8", "bf16", 1.0234),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", "nvfp4", 9 / 16),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}, "input_activations": {}}},
            },
            "fp8",
            "bf16",
            1.0,
        ),
    ],
)
def test_quantised_weights_count_their_stored_size(
    quantization: dict[str, Any], dtype: str, activation: str, bytes_per_weight: float
) -> None:
    found = model(quantization_config=quantization)
    assert (found.dtype, found.activation_dtype) == (dtype, activation)
    assert found.ffn_weight_bytes == pytest.approx(3 * 4096 * 14336 * bytes_per_weight, rel=1e-3)


def test_modules_that_stay_wide_are_counted_wide() -> None:
    kept = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    assert model(quantization_config=kept).attention_dtype == "bf16"
    some = [f"model.layers.{i}.self_attn.q_proj" for i in range(3)]  # three of 32 layers do not make the model
    assert model(quantization_config={"quant_method": "fp8", "ignore": some}).attention_dtype == ""
    for router in ("re:.*mlp.gate$", "model.layers.0.mlp.gate"):
        assert model(quantization_config={"quant_method": "fp8", "ignore": [router]}).dtype == "fp8"
    for block in (r"re:.*mlp\.(gate|up|down)_proj$", "re:.*mlp.gate_proj.*"):
        assert model(quantization_config={"quant_method": "fp8", "ignore": [block]}).dtype == "bf16"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": float("nan")}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"num_attention_heads": 33}, "head_dim"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["mamba"] * 32}, "layer_types"),
        ({"ssm_cfg": {"x": 1}}, "ssm_cfg"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"quantization_config": {"quant_method": "hqq"}}, "quant_method"),
        ({"quantization_config": "fp8"}, "quantization_config"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "moe_layer_freq": 2}, "moe_layer_freq"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "mlp_only_layers": [5]}, "mlp_only_layers"),
        ({"vocab_size": 10**30}, "vocab_size"),
    ],
)
def test_what_cannot_be_expressed_is_named(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        model(**changes)
    assert key in caught.value.key
    assert len(str(caught.value)) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = sorted({*LLAMA, *DEEPSEEK, "text_config", "layer_types", "sliding_window", "num_local_experts", "head_dim"})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_hostile_configs_are_read_or_refused_but_never_crash(changes: dict[str, Any]) -> None:
    try:
        found = model_from_hf_config({**LLAMA, **changes}, "m", "r")
    except UnsupportedModelError:
        return
    assert found.weight_bytes > 0
    assert len(found.windows) == found.layers


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6))
def test_hostile_latent_configs_are_read_or_refused(changes: dict[str, Any]) -> None:
    try:
        model_from_hf_config({**json.loads(json.dumps(DEEPSEEK)), **changes}, "m", "r")
    except UnsupportedModelError:
        return
