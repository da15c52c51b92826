"""What a layer asks of a device: few operations, and no mask from the processor."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.attention_plan import attention_plans
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.kv_cache import KvCache, window_groups
from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.packed_weights import FP8_BLOCKS, INT8, Format, awq, gptq, nvfp4, save_in
from tests.agents.engines.pipelines import DEVICE, Pipeline
from tests.agents.engines.shards import ranks
from tests.agents.engines.tiny_models import LAYERS, MODELS, assert_same, prompt_of, reference, save_model

Made = Callable[[str], TinyModel]
MANY = {
    "qwen3-moe": {"num_experts": 64, "num_experts_per_tok": 8},
    "gpt-oss": {"num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 20},
}

NOT_COUNTED = {*MANY, "qwen3-moe-unnormalised", "qwen2-windowed"}
"""Models of experts; and one whose later layers alone have a window, for which a step plans once more."""


class Counted(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.sent_bytes = 0
        """From the processor to another device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        if isinstance(result, torch.Tensor) and any(isinstance(a, torch.Tensor) and a.is_cpu for a in args):
            self.sent_bytes += 0 if result.is_cpu else result.numel() * result.element_size()
        return result


def operations_a_layer(checkpoint: Checkpoint, batch: StepBatch) -> float:
    """Without what a step does once. Both windows of gpt-oss are among the layers that are compared."""
    counts = []
    for layers in (2, 4):
        held = LayerRange(1, layers, first=False, last=False)
        engine = load_torch_engine(checkpoint, held, 64, torch.float32, DEVICE)
        rows = torch.randn(batch.tokens, engine.facts.hidden_size, generator=torch.Generator().manual_seed(0))
        with Counted() as counted:
            engine.step(batch, rows)
        counts.append(counted.operations)
    return (counts[1] - counts[0]) / 2


@contextmanager
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Experts as they are held on a GPU, here."""
    with monkeypatch.context() as patch:
        patch.setattr("agents.engines.torch_engine.expert_matrices.is_grouped", lambda _: True)
        yield


@pytest.mark.parametrize("name", MANY)
def test_a_layer_of_many_experts_is_few_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Sixteen requests at once choose most of the experts: one by one, each costs a few; grouped, none does."""
    config, model_class, changes = MODELS[name]
    monkeypatch.setitem(MODELS, name, (config, model_class, {**changes, **MANY[name]}))
    save_model(name, tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    decode = StepBatch(tuple(StepRequest(str(number), 0, 1) for number in range(16)))
    experts = next(count for key, count in MANY[name].items() if key.startswith("num_") and "experts" in key)
    assert operations_a_layer(checkpoint, decode) < 110 + 4 * experts
    with on_a_gpu(monkeypatch):
        assert operations_a_layer(checkpoint, decode) < 110


@pytest.mark.parametrize("name", sorted(MODELS.keys() - NOT_COUNTED))
def test_a_dense_layer_of_every_family_is_few_operations(tiny_model: Made, name: str) -> None:
    """Sixteen requests at once, views counted."""
    decode = StepBatch(tuple(StepRequest(str(number), 0, 1) for number in range(16)))
    assert operations_a_layer(tiny_model(name)[0], decode) < 90


@pytest.mark.parametrize("form", [FP8_BLOCKS, gptq(4, 32), awq(32), nvfp4(compressed_tensors=True), INT8])
def test_unpacking_a_layer_is_few_operations_more(tmp_path: Path, form: Format) -> None:
    """Of four matrices."""
    plain, packed = (open_checkpoint(folder) for folder in save_in(form, "llama", tmp_path, num_hidden_layers=LAYERS))
    decode = StepBatch(tuple(StepRequest(str(number), 0, 1) for number in range(16)))
    assert operations_a_layer(packed, decode) < operations_a_layer(plain, decode) + 4 * 20


def test_packed_experts_are_unpacked_together(tmp_path: Path) -> None:
    """Of the eight experts, one by one takes a dozen operations for each of their two matrices."""
    _, packed = save_packed(tmp_path)
    decode = StepBatch(tuple(StepRequest(str(number), 0, 1) for number in range(16)))
    assert operations_a_layer(open_checkpoint(packed), decode) < 110 + 2 * 15 + 4 * 8


@pytest.mark.parametrize("name", ["qwen3-moe", "gpt-oss"])
@pytest.mark.parametrize("whole_experts", [None, False, True])
def test_grouped_experts_give_the_tokens_of_transformers(
    tiny_model: Made, monkeypatch: pytest.MonkeyPatch, name: str, whole_experts: bool | None
) -> None:
    """In one rank, and in two that hold parts of all experts or some whole."""
    checkpoint, model = tiny_model(name)
    prompt = prompt_of(30)
    expected = reference(model, prompt, 8)
    with on_a_gpu(monkeypatch):
        if whole_experts is None:
            assert_same(Pipeline.load(checkpoint, [2, 4]).generate(prompt, 8, chunk=16), expected)
            return
        with ranks(2, whole_experts) as cut:
            held = LayerRange.whole(LAYERS)
            each = cut.each(
                lambda rank: load_torch_engine(checkpoint, held, 32, torch.float32, DEVICE, cut.shards[rank])
            )
            for tokens in cut.each(lambda rank: Pipeline([each[rank]]).generate(prompt, 8, chunk=16)):
                assert_same(tokens, expected)


def test_what_goes_to_the_device_grows_with_tokens_and_blocks_and_not_with_their_product() -> None:
    """A mask is as large as queries times keys; it is made where it is used."""
    heads, tokens = 8, 512
    cache = KvCache(window_groups((0, 128)), 64, 2, 16, torch.empty(0, device="meta"))
    batch = StepBatch((StepRequest("a", 0, tokens),))
    cache.grow(batch)
    with Counted() as counted:
        plans = attention_plans(cache, batch, heads)
    mask = plans[0].rows[0].mask
    assert mask.shape == (1, 1, heads * tokens, tokens)
    assert 0 < counted.sent_bytes < 64 * tokens < mask.nbytes / 100
