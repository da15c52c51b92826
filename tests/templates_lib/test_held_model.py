"""What engines make of checkpoints: one declaration, by which plans are made and nodes refuse."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from templates_lib.models.catalogue import load_models, measured_configs
from templates_lib.models.held_model import default_engines, held_by, refusal, refusal_at, refusal_of_node
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.dtypes import computes
from templates_lib.throughput.memory import node_memory
from templates_lib.throughput.splits import splits
from templates_lib.values.engine_support import PLAIN_BYTES, EngineSupport
from templates_lib.values.engines import ENGINES, EngineKind, support_of
from templates_lib.values.stored_weights import StoredWeights
from tests.conftest import VLLM_PYTHON
from tests.templates_lib import throughput_worlds as worlds

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "vocab_size": 100,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
FP8 = {"quantization_config": {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8}}}


def spec(**more: Any) -> ModelSpec:
    return model_from_hf_config({**LLAMA, **more}, "m", "r")


def stored(model: ModelSpec) -> StoredWeights:
    assert model.stored is not None
    return model.stored


@pytest.fixture
def widening(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that makes bf16 of whatever it reads, and one that reads nothing but that."""
    weights = dict.fromkeys(("bf16", "fp8", "int4", "mxfp4"), "bf16")
    support = EngineSupport(weights=weights, computes_in=frozenset({"bf16"}))
    monkeypatch.setitem(ENGINES, "wide", EngineKind("wide:load", (), support=support))
    plain = EngineSupport(families=frozenset({"llama"}), weights={"bf16": "bf16"}, tensor_parallel=False)
    monkeypatch.setitem(ENGINES, "plain", EngineKind("plain:load", (), support=plain, rented=plain))


@pytest.mark.parametrize(
    ("config", "clouds", "engines"),
    [
        ({}, ["aws"], ("vllm", "torch")),
        (FP8, ["aws", "gcp"], ("vllm", "torch")),
        ({}, ["aws", "local"], ("vllm", "torch")),
        (AWQ, ["owned"], ("torch",)),
        (FP8, ["local"], ("torch",)),
        ({}, [], ("torch",)),
        ({"model_type": "mixtral"}, ["aws", "owned"], ("vllm",)),
        ({"model_type": "mixtral"}, ["owned"], ("torch",)),
        ({"model_type": "mamba"}, ["aws"], ("torch",)),
    ],
)
def test_whose_engine_nobody_names_is_served_by_whole_models_where_they_are_started_and_by_pipelines(
    config: Any, clouds: list[str], engines: tuple[str, ...]
) -> None:
    assert default_engines(clouds, stored(spec(**config))) == engines
    assert default_engines(clouds, None) == ("torch",)


@pytest.mark.usefixtures("widening")
@pytest.mark.parametrize("format_of_weights", [AWQ, FP8])
def test_weights_that_an_engine_widens_are_planned_in_the_bytes_that_it_holds(format_of_weights: Any) -> None:
    quantised, plain = spec(**format_of_weights), spec()
    held = held_by("wide", quantised)
    assert quantised.weight_bytes < 0.8 * plain.weight_bytes
    assert held.weight_bytes == pytest.approx(plain.weight_bytes)
    assert (held.dtype, held.activation_dtype, held.kv_dtype) == ("bf16", "bf16", "bf16")
    assert held_by("vllm-stage", quantised) == quantised  # as the checkpoint stores them


@pytest.mark.usefixtures("widening")
def test_experts_are_widened_and_what_is_plain_already_stays() -> None:
    found = load_models()["gpt-oss-20b"]
    held = held_by("wide", found)
    assert held.weight_bytes / 1e9 == pytest.approx(41.8, abs=0.1)  # as torch was measured to hold it
    assert held.attention_weight_bytes == found.attention_weight_bytes
    assert (held.dtype, held.attention_dtype) == ("bf16", "")
    fp8 = model_from_hf_config(measured_configs()["deepseek-ai/DeepSeek-V3"], "v3", "")
    wide = held_by("wide", fp8)
    gpu = worlds.gpu("G", memory_gib=80)
    few, more = (node_memory(m, gpu, Parallel(), np.arange(1, 5)).weights_bytes[1, 0, :, 0] for m in (fp8, wide))
    assert np.all((1.8 * few < more) & (more < 2.1 * few))  # leading dense layers, and latent attention, too


def test_what_torch_holds_of_the_catalogue_is_declared() -> None:
    support = support_of("torch")
    for model in load_models().values():
        if refusal("torch", model.id, stored(model)) is None:
            held = held_by("torch", model)
            assert held.dtype in support.held
            assert held_by("torch", held) == held
            assert all(support.reads(stored(model).family, each) for each in stored(model).formats)
    fp32 = load_models()["smollm2-135m-instruct"]
    assert held_by("torch", fp32) == fp32  # stored in bf16, served in fp32


@pytest.mark.usefixtures("widening")
def test_a_refusal_names_model_engine_and_format_and_what_would_run_it() -> None:
    assert refusal("plain", "m", stored(spec())) is None
    family = refusal("plain", "m", stored(spec(model_type="mamba")))
    assert family is not None
    assert all(part in family for part in ("model m", "'mamba'", "engine plain", "llama", "`engine: wide`"))
    weights = refusal("plain", "m", stored(spec(**AWQ)))
    assert weights is not None
    assert all(part in weights for part in ("int4", "engine plain", "a checkpoint of it in bf16", "`engine: wide`"))
    assert "`engine: torch`" in weights
    assert refusal("torch", "m", stored(spec(**AWQ))) is None
    elsewhere = refusal("torch", "m", stored(spec(quantization_config={"quant_method": "mxfp4"})))
    assert elsewhere is not None
    assert "weights in mxfp4" in elsewhere
    assert refusal_of_node("plain", "m", stored(spec(**AWQ))) == weights
    nameless = refusal("plain", "m", stored(replace(spec(), stored=replace(stored(spec()), family=""))))
    assert nameless is not None
    assert "model_type" in nameless


def test_nodes_may_run_less_than_their_engine_could() -> None:
    mixtral = stored(spec(model_type="mixtral"))
    assert refusal("vllm-stage", "m", mixtral) is None
    here = refusal_at("local", "vllm-stage", "m", mixtral)
    assert here is not None
    assert "engine vllm-stage on nodes of local" in here
    assert "`engine: vllm`, which starts on rented nodes only" in here
    assert refusal_at("aws", "vllm-stage", "m", mixtral) is None  # they have no such engine, which is another matter
    assert refusal_of_node("vllm-stage", "m", mixtral) is not None
    assert refusal_of_node("vllm", "m", mixtral) is None


WINDOWS = {"use_sliding_window": True, "sliding_window": 16}
LATENT = {
    "model_type": "deepseek_v2", "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"head_dim": 20}, "20"),
        ({"model_type": "qwen2", **WINDOWS, "max_window_layers": 2}, "window"),
        ({"model_type": "qwen3", **WINDOWS, "layer_types": ["sliding_attention", "full_attention"] * 2}, "window"),
        (LATENT, "48"),
    ],
)
def test_attention_that_vllm_does_not_run_is_refused_with_what_would(config: Any, named: str) -> None:
    described = stored(spec(**config))
    why = refusal("vllm", "m", described)
    assert why is not None
    assert all(part in why for part in ("model m", named, "engine vllm"))
    assert ("`engine: torch`" in why) == (config is not LATENT)
    assert "a checkpoint of it in" not in why
    assert default_engines(["aws"], described) == ("torch",)
    assert refusal_of_node("vllm", "m", described) is not None


@pytest.mark.parametrize(
    "config",
    [
        {"head_dim": 16},
        {"head_dim": 100},
        {"model_type": "mistral", "sliding_window": 16},
        {"model_type": "qwen2", **WINDOWS, "max_window_layers": 0},
        {"model_type": "qwen2", **WINDOWS, "max_window_layers": 4},
        {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"] * 2},
        LATENT | {"kv_lora_rank": 512, "qk_rope_head_dim": 64},
    ],
)
def test_attention_that_vllm_runs_is_not_refused(config: Any) -> None:
    assert refusal("vllm", "m", stored(spec(**config))) is None


@pytest.mark.needs("vllm")
def test_what_is_declared_of_attention_is_what_vllm_says() -> None:
    vllm = next(VLLM_PYTHON.parent.parent.glob("lib/python3*/site-packages/vllm"))
    models, support = vllm / "model_executor" / "models", support_of("vllm")
    registry = (models / "registry.py").read_text()
    by_layer = {path.stem for path in models.glob("*.py") if "per_layer_sliding_window=" in path.read_text()}
    of_llama = {path.stem for path in models.glob("*.py") if "(LlamaForCausalLM)" in path.read_text()}
    of_llama |= {"mistral"}  # whose attention is Llama's
    assert '("mistral", "MistralForCausalLM")' in registry
    assert "class MistralAttention(LlamaAttention)" in (models / "mistral.py").read_text()
    assert support.mixes_windows is not None
    assert support.mixes_windows <= by_layer | of_llama
    refused = (models / "qwen2.py").read_text()
    assert "config.max_window_layers == config.num_hidden_layers" in refused
    assert "class Qwen3Model(Qwen2Model)" in (models / "qwen3.py").read_text()
    backends = vllm / "v1" / "attention" / "backends"
    assert "head_size % 8 != 0" in (backends / "flash_attn.py").read_text()
    assert "return head_size >= 32" in (backends / "triton_attn.py").read_text()
    latent = (vllm / "model_executor" / "layers" / "attention" / "mla_attention.py").read_text()
    on_processors = (backends / "cpu_attn.py").read_text()
    stages = ENGINES["vllm-stage"].here
    assert support.latent_sizes is not None
    assert stages is not None
    assert stages.head_sizes is not None
    for text, sizes in ((latent, support.latent_sizes), (on_processors, stages.head_sizes)):
        found = re.search(r"def get_supported_head_sizes\(cls\) -> list\[int\]:\s+return \[([\d, ]+)\]", text)
        assert found is not None
        assert {int(size) for size in found[1].split(",")} == sizes.listed


@pytest.mark.needs("vllm")
def test_what_is_declared_of_vllm_is_what_its_registries_name() -> None:
    packages = next(VLLM_PYTHON.parent.parent.glob("lib/python3*/site-packages"))
    registry = (packages / "vllm/model_executor/models/registry.py").read_text()
    known = registry.partition("_TEXT_GENERATION_MODELS = {")[2].partition("\n}")[0]
    names = (packages / "transformers/models/auto/modeling_auto.py").read_text()
    causal = names.partition("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")[2].partition("\n)")[0]
    architectures = dict(re.findall(r'\("([\w-]+)", "(\w+)"\)', causal))
    for family in support_of("vllm").families or ():
        assert f'"{architectures[family]}": (' in known, family
    methods = (packages / "vllm/model_executor/layers/quantization/__init__.py").read_text()
    of_format = {"fp8": "fp8", "int4": "awq", "int8": "compressed-tensors", "mxfp4": "mxfp4", "nvfp4": "modelopt_fp4"}
    quantised = support_of("vllm").weights.keys() - PLAIN_BYTES
    assert quantised == of_format.keys()
    assert all(f'"{of_format[each]}",' in methods for each in quantised)


def test_every_checkpoint_that_is_described_is_run_by_vllm_or_refused_with_its_family() -> None:
    for name, config in measured_configs().items():
        described = stored(model_from_hf_config(config, name, ""))
        why = refusal("vllm", name, described)
        assert why is None or f"family {described.family!r}" in why


@pytest.mark.usefixtures("widening")
def test_an_engine_is_asked_how_it_can_be_cut_and_where_it_computes() -> None:
    model = worlds.model()
    assert {each.tp for each in splits(model, 4)} == {1, 2, 4}
    assert {each.tp for each in splits(model, 4, support_of("plain"))} == {1}
    assert {(each.tp, each.dp, each.pp) for each in splits(model, 4, support_of("vllm"))} == {
        *((4, 1, 1), (2, 1, 2), (1, 1, 4))
    }
    old = replace(worlds.gpu("V"), dtypes=("fp16",))
    assert computes(old, model)
    assert not computes(old, model, support_of("wide"))
    assert computes(worlds.gpu("G"), model, support_of("wide"))


def test_declarations_make_sense() -> None:
    for name, kind in ENGINES.items():
        for support in filter(None, (kind.support, kind.here, kind.rented)):
            wider = {held for stored_as, held in support.weights.items() if held != stored_as}
            assert wider <= PLAIN_BYTES.keys(), name
            assert 0 < support.usable_share <= 1
        for where in filter(None, (kind.here, kind.rented)):
            # What nodes start holds weights as its engine's plans say, and reads no more.
            assert all(
                kind.support.weights.get(each) == where.weights[each] or each == "fp16" for each in where.weights
            )
