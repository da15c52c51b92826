"""Stages that do not make the pipeline of the layout are found before a request reaches them."""

import msgspec
import pytest

from agents.messages.to_stage_scheduler import StageLoaded
from agents.scheduler.stage_check import faults
from agents.scheduler.workers import Workers
from tests.agents.scheduler.fake_stages import BLOCK_TOKENS, layout

LAYOUT = layout((1.0,), (0.5, 0.5), blocks=64, context=200)
WORKERS = Workers(LAYOUT)
FIRST = StageLoaded(0, 2, 5, 32, "torch.float32", 1000, 200, BLOCK_TOKENS, 64, 2, 16, 1 << 20, 0.5, "cpu")
SECOND = msgspec.structs.replace(FIRST, first_layer=2, layers=3)
GOOD = {0: FIRST, 1: SECOND, 2: SECOND}


def test_stages_that_make_the_model_are_fine() -> None:
    assert not list(faults(LAYOUT, WORKERS, GOOD))
    unknown = {worker: msgspec.structs.replace(one, max_context_tokens=0) for worker, one in GOOD.items()}
    assert not list(faults(LAYOUT, WORKERS, unknown))


@pytest.mark.parametrize(
    ("workers", "change", "reason"),
    [
        ((0,), {"dtype": "torch.bfloat16"}, "differ in"),
        ((2,), {"layers": 2}, "stage 1 holds"),
        ((1, 2), {"first_layer": 1}, "must begin with layer 2"),
        ((1, 2), {"layers": 2}, "hold 4 layers of 5"),
        ((2,), {"kv_blocks": 63}, "1.1 has 63 KV blocks"),
        (tuple(GOOD), {"vocab_size": 999}, "a vocabulary of 999"),
        (tuple(GOOD), {"block_tokens": 32}, "KV blocks of 32 tokens"),
        (tuple(GOOD), {"max_context_tokens": 100}, "context has 100 tokens"),
    ],
)
def test_what_does_not_fit_is_named(workers: tuple, change: dict, reason: str) -> None:
    changed = {w: msgspec.structs.replace(one, **change) if w in workers else one for w, one in GOOD.items()}
    assert reason in next(faults(LAYOUT, WORKERS, changed))
