"""torch's kernel for 4-bit integers multiplies what the checkpoint says, or is left alone and named in the log."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine import int4_linear
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.experts import Experts
from agents.engines.torch_engine.int4_linear import Int4Linear
from agents.engines.torch_engine.quantised_linear import QuantisedLinear
from agents.engines.torch_engine.stage_weights import GatedMlp, read_stage
from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.packed_weights import Format, awq, gptq, int_packed, save_in
from tests.agents.engines.pipelines import DEVICE
from tests.agents.engines.test_packed_weights import held_bytes

SIZES = {
    "num_hidden_layers": 1,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
}
CASES: dict[str, tuple[Format, str]] = {
    "gptq, llama": (gptq(4, 128), "llama"),
    "gptq in another order, qwen2": (gptq(4, 128, desc_act=True), "qwen2"),
    "awq, phi3": (awq(128), "phi3"),
    "awq, qwen3-moe": (awq(128), "qwen3-moe"),
    "packed, mistral": (int_packed(4, 128), "mistral"),
}
HELD = LayerRange.whole(1)


@pytest.fixture(autouse=True)
def _asked_again() -> Iterator[None]:
    """What one test finds out of the kernel is not another's."""
    int4_linear._works.cache_clear()
    yield
    int4_linear._works.cache_clear()


@pytest.fixture(params=CASES)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoint:
    form, name = CASES[request.param]
    sizes = {key: size for key, size in SIZES.items() if name.endswith("moe") or not key.startswith("moe")}
    return open_checkpoint(save_in(form, name, tmp_path, **sizes)[1])


def kinds(checkpoint: Checkpoint) -> set[type]:
    """Classes of the products of attention and dense feed-forward blocks."""
    stage = read_stage(checkpoint, decoder_config(checkpoint.config), HELD, torch.bfloat16, DEVICE)
    layer = stage.layers[0]
    products = {type(layer.attention.query_key_value), type(layer.attention.output)}
    if isinstance(layer.feed_forward, GatedMlp):
        products |= {type(layer.feed_forward.gate_up), type(layer.feed_forward.down)}
    elif isinstance(layer.feed_forward, Experts):
        products |= {type(each) for each in getattr(layer.feed_forward.gate_up, "linears", ())}
    return products


@torch.inference_mode()
def log_probabilities(checkpoint: Checkpoint, dtype: torch.dtype) -> torch.Tensor:
    """(3, vocabulary): behind a prompt of twenty tokens, and behind each of two more."""
    engine = load_torch_engine(checkpoint, HELD, 4, dtype, DEVICE)
    stage, said = engine._stage, []
    assert stage is not None
    for position, tokens in ((0, 20), (20, 1), (21, 1)):
        batch = StepBatch((StepRequest("a", position, tokens),))
        engine._cache.grow(batch)
        rows = stage.forward(batch, torch.arange(position, position + tokens), engine._cache, lambda _: None)
        engine._cache.advance(batch)
        assert stage.head is not None
        said.append(stage.head(rows[-1:]).log_softmax(-1))
    return torch.cat(said)


def test_a_layer_says_what_unpacked_weights_say(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = log_probabilities(checkpoint, torch.float32)
    assert Int4Linear in kinds(checkpoint)
    by_kernel = log_probabilities(checkpoint, torch.bfloat16)
    monkeypatch.setattr(int4_linear, "_works", lambda *_: False)
    assert Int4Linear not in kinds(checkpoint)
    unpacked = log_probabilities(checkpoint, torch.bfloat16)
    off, allowed = (float((each - exact).abs().mean()) for each in (by_kernel, unpacked))
    assert 0 < off < 2 * allowed + 0.01


def test_weights_of_the_kernel_take_what_they_take_stored(checkpoint: Checkpoint) -> None:
    stage = read_stage(checkpoint, decoder_config(checkpoint.config), HELD, torch.bfloat16, DEVICE)
    kept = held_bytes(stage.layers)
    ends = ("g_idx",) if checkpoint.config["model_type"] == "qwen2" else ()
    ends += ("qweight", "qzeros", "scales", "weight_packed", "weight_scale")
    packed = sum(checkpoint.stored_bytes(name) for name in checkpoint.names if name.endswith(ends))
    in_layers = [name for name in checkpoint.names if ".layers." in name and name.endswith((".weight", ".bias"))]
    plain = sum(checkpoint.stored_bytes(name) // 2 for name in in_layers)
    assert kept == pytest.approx(packed + plain, rel=0.035)


@pytest.mark.parametrize("wrong", ["raises", "differs"])
def test_a_kernel_that_does_not_work_here_is_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    def kernel(rows: torch.Tensor, words: torch.Tensor, group: int, scales: torch.Tensor) -> torch.Tensor:
        if wrong == "raises":
            raise RuntimeError("no kernel image is available\nfor execution")
        return rows.new_ones(len(rows), scales.shape[1])

    monkeypatch.setattr(int4_linear, "_multiplied", kernel)
    checkpoint = open_checkpoint(
        save_in(
            awq(128),
            "llama",
            tmp_path,
            num_hidden_layers=1,
            hidden_size=256,
            num_attention_heads=8,
            intermediate_size=256,
        )[1]
    )
    with caplog.at_level(logging.WARNING):
        assert kinds(checkpoint) == {QuantisedLinear}
    (record,) = [each for each in caplog.records if "int4 kernel is not used on cpu" in each.message]
    assert ("no kernel image" if wrong == "raises" else "off by") in record.message
