"""KV blocks: none leaks, none is taken by a step that cannot run, and windowed layers keep only what they see."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import OutOfKvBlocksError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import DEVICE
from tests.agents.engines.tiny_models import LAYERS, prompt_of

Made = Callable[[str], TinyModel]
BLOCKS = 12


def engine(tiny_model: Made, name: str, layers: int = LAYERS) -> TorchEngine:
    held = LayerRange(0, layers, first=True, last=layers == LAYERS)
    return load_torch_engine(tiny_model(name)[0], held, BLOCKS, torch.float32, DEVICE)


def feed(target: TorchEngine, *requests: tuple[str, int, int]) -> None:
    """(id, position, tokens) each."""
    batch = StepBatch(tuple(StepRequest(*request) for request in requests))
    target.step(batch, torch.tensor(prompt_of(batch.tokens)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["llama", "gpt-oss"]),
    moves=st.lists(
        st.tuples(st.sampled_from(["feed", "feed", "reserve", "cancel"]), st.integers(0, 5), st.integers(1, 70)),
        max_size=25,
    ),
)
def test_random_admits_imports_and_cancels_leak_no_block(
    tiny_model: Made, name: str, moves: list[tuple[str, int, int]]
) -> None:
    target = engine(tiny_model, name, layers=2)
    cached: dict[str, int] = {}
    for move, number, tokens in moves:
        request = f"r{number}"
        before = target.free_kv_blocks
        is_over = cached.get(request, 0) + tokens > target.facts.max_context_tokens
        if move == "cancel" or (move == "feed" and is_over):
            target.free(request)
            cached.pop(request, None)
            continue
        try:
            if move == "feed":
                feed(target, (request, cached.get(request, 0), tokens))
                cached[request] = cached.get(request, 0) + tokens
            elif request not in cached:
                target.reserve(request, tokens)
                cached[request] = tokens
        except OutOfKvBlocksError:
            assert target.free_kv_blocks == before
        if not any(target.facts.max_context_tokens < n + 70 for n in cached.values()):
            full = sum(-(-n // target.facts.block_tokens) for n in cached.values())
            assert target.free_kv_blocks >= BLOCKS - full
    for request in list(cached):
        target.free(request)
    assert target.free_kv_blocks == BLOCKS


def test_a_full_cache_refuses_the_step_says_by_how_much_and_goes_on(tiny_model: Made) -> None:
    target = engine(tiny_model, "llama")
    feed(target, ("long", 0, 150))
    batch = StepBatch((StepRequest("long", 150, 1), StepRequest("new", 0, 60)))
    assert target.free_kv_blocks == 2
    assert target.kv_blocks_short(batch) == 2
    with pytest.raises(OutOfKvBlocksError):
        target.step(batch, torch.tensor(prompt_of(61)))
    assert target.free_kv_blocks == 2
    feed(target, ("long", 150, 1), ("new", 0, 30))
    target.free("long")
    assert target.kv_blocks_short(StepBatch((StepRequest("new", 30, 60),))) == 0


def test_layers_with_a_window_give_back_what_no_query_sees(tiny_model: Made) -> None:
    """Of 6 layers of gpt-oss 3 see 20 tokens: a request holds 2 or 3 blocks there, however long it is."""
    target = engine(tiny_model, "gpt-oss")
    for start in range(0, 180, 36):
        feed(target, ("x", start, 36))
    full_blocks, windowed_blocks = -(-180 // 16), 2
    assert target.free_kv_blocks == (BLOCKS * LAYERS - 3 * full_blocks - 3 * windowed_blocks) // LAYERS
    assert target.first_kept_token(0, 180) == 161
    assert target.first_kept_token(1, 180) == 0
