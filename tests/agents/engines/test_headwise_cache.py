"""A KV cache in a pool that models share gives the tokens of one of an engine's own, whatever the others left there."""

from collections.abc import Callable

import pytest
import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import OutOfKvBlocksError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.block_pool import BlockPool
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from agents.kv_pool.block_layout import block_tokens
from agents.kv_pool.lent_pool import LentPool
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import Pipeline, Running, hand_over
from tests.agents.engines.tiny_models import LAYERS, MODELS, assert_same, prompt_of, reference

Made = Callable[[str], TinyModel]
CPU = torch.device("cpu")
WHOLE = LayerRange.whole(LAYERS)
TOKENS, BLOCK_BYTES, BLOCKS = 12, 512, 3000


def pool(blocks: int = BLOCKS) -> LentPool:
    """Full of what is no number in any type."""
    return LentPool(memoryview(bytearray(b"\xff" * (blocks * BLOCK_BYTES))), BLOCK_BYTES, BlockPool(blocks))


def engine(tiny_model: Made, name: str, lent: LentPool | None, dtype: torch.dtype = torch.float32) -> TorchEngine:
    return load_torch_engine(tiny_model(name)[0], WHOLE, 64, dtype, CPU, pool=lent)


def generated(engines: dict[str, TorchEngine], prompts: dict[str, list[int]], chunk: int) -> dict[str, list[int]]:
    """Greedy tokens of a request of each engine, which take their steps in turn."""
    running = {name: Running(name, tuple(prompt)) for name, prompt in prompts.items()}
    while any(len(request.tokens) < TOKENS for request in running.values()):
        for name, request in running.items():
            if len(request.tokens) < TOKENS:
                (running[name],) = Pipeline([engines[name]]).step([request], chunk)
    for name, each in engines.items():
        each.free(name)
    return {name: list(request.tokens) for name, request in running.items()}


@pytest.mark.parametrize("name", MODELS)
def test_every_family_gives_the_tokens_of_a_cache_of_its_own(tiny_model: Made, name: str) -> None:
    _, model = tiny_model(name)
    lent = pool()
    found = generated({name: engine(tiny_model, name, lent)}, {name: prompt_of(45)}, chunk=17)
    assert_same(found[name], reference(model, prompt_of(45), TOKENS))
    assert lent.blocks.free == BLOCKS


def test_models_of_other_heads_and_types_do_not_disturb_each_other(tiny_model: Made) -> None:
    members = {
        "llama": torch.float32, "gpt-oss": torch.bfloat16, "qwen3": torch.bfloat16, "mistral": torch.float32
    }  # fmt: skip
    prompts = {name: prompt_of(20 + 9 * number, number) for number, name in enumerate(members)}
    lent = pool()
    shared = {name: engine(tiny_model, name, lent, dtype) for name, dtype in members.items()}
    own = {name: engine(tiny_model, name, None, dtype) for name, dtype in members.items()}
    first = generated(shared, prompts, chunk=16)
    assert first == generated(own, prompts, chunk=16)
    assert generated(shared, prompts, chunk=16) == first  # in blocks that others have used
    assert lent.blocks.free == BLOCKS


def test_requests_of_unlike_lengths_are_batched(tiny_model: Made) -> None:
    _, model = tiny_model("gpt-oss")
    target = Pipeline([engine(tiny_model, "gpt-oss", pool())])
    running = [Running(f"r{length}", tuple(prompt_of(length, length))) for length in (3, 17, 40, 70)]
    while any(len(request.tokens) < TOKENS for request in running):
        running = target.step(running, chunk=32)
    for request, length in zip(running, (3, 17, 40, 70), strict=True):
        assert_same(list(request.tokens[:TOKENS]), reference(model, prompt_of(length, length), TOKENS))


@pytest.mark.parametrize("to_pool", [True, False])
def test_a_request_goes_on_in_a_cache_of_the_other_kind(tiny_model: Made, *, to_pool: bool) -> None:
    _, model = tiny_model("mistral")
    ends = [Pipeline([engine(tiny_model, "mistral", lent)]) for lent in (None, pool())]
    source, target = ends if to_pool else ends[::-1]
    (running,) = source.step([Running("only", tuple(prompt_of(45)))], chunk=512)
    assert hand_over("only", running.position, source, target) > 0
    while len(running.tokens) < TOKENS:
        (running,) = target.step([running], chunk=512)
    assert_same(list(running.tokens), reference(model, prompt_of(45), TOKENS))


def test_a_member_holds_blocks_by_layer_head_and_side_and_none_that_are_short(tiny_model: Made) -> None:
    lent = pool(200)
    target = engine(tiny_model, "llama", lent)
    tokens = block_tokens(BLOCK_BYTES, 16 * 4)
    of_block = LAYERS * 2 * target.facts.kv_heads
    Pipeline([target]).step([Running("a", tuple(prompt_of(tokens + 1)))], chunk=64)
    assert lent.blocks.free == 200 - 2 * of_block
    with pytest.raises(OutOfKvBlocksError):
        Pipeline([target]).step([Running("b", tuple(prompt_of(100)))], chunk=128)
    assert lent.blocks.free == 200 - 2 * of_block
    target.free("a")
    assert lent.blocks.free == 200


def test_heads_that_do_not_fill_blocks_are_refused(tiny_model: Made) -> None:
    odd = LentPool(memoryview(bytearray(100 * 50)), 50, BlockPool(100))
    with pytest.raises(ValueError, match="fill"):
        engine(tiny_model, "llama", odd)


class Contended(BlockPool):
    """Of which others take what was free when somebody looked."""

    @property
    def free(self) -> int:
        return 10**6


@pytest.mark.parametrize("name", ["gpt-oss", "mistral"])
def test_room_that_others_take_meanwhile_is_refused_and_nothing_is_kept(tiny_model: Made, name: str) -> None:
    blocks = Contended(60)
    lent = LentPool(memoryview(bytearray(60 * BLOCK_BYTES)), BLOCK_BYTES, blocks)
    target = engine(tiny_model, name, lent)
    small, large = (StepRequest(each, 0, tokens) for each, tokens in (("small", 4), ("large", 4000)))
    with pytest.raises(OutOfKvBlocksError):
        target._cache.grow(StepBatch((small, large)))
    with pytest.raises(OutOfKvBlocksError):
        target._cache.reserve("large", 4000)
    assert len(blocks._free) == 60
    target._cache.grow(StepBatch((small,)))
    target.free("small")
    assert len(blocks._free) == 60
