"""Over ten thousand tokens of each architecture at most one, and that at a near tie, is not transformers' choice."""

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import Pipeline, Running
from tests.agents.engines.tiny_models import LAYERS, MODELS, NEAR_TIE, prompt_of

REQUESTS, TOKENS = 64, 157


def mismatches(model: PreTrainedModel, prompt: list[int], tokens: tuple[int, ...]) -> list[float]:
    """For each token that is not the likeliest after what stands before it: how much likelier the likeliest is.

    One pass over the engine's own text shows every wrong choice, also those after the first.
    """
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + list(tokens)])).logits[0, len(prompt) - 1 : -1].float()
    best = logits.max(-1).values
    chosen = logits.gather(-1, torch.tensor(tokens)[:, None])[:, 0]
    return (best - chosen)[logits.argmax(-1) != torch.tensor(tokens)].tolist()


@pytest.mark.parametrize("name", MODELS)
def test_ten_thousand_tokens_in_a_full_batch(tiny_model: Callable[[str], TinyModel], name: str) -> None:
    checkpoint, model = tiny_model(name)
    pipeline = Pipeline.load(checkpoint, [LAYERS], blocks=12 * REQUESTS)
    prompts = [prompt_of(1 + i % 30, i) for i in range(REQUESTS)]
    running = [Running(f"r{i}", tuple(prompt)) for i, prompt in enumerate(prompts)]
    while len(running[-1].tokens) < TOKENS:
        running = pipeline.step(running, chunk=30)
    assert sum(len(request.tokens) for request in running) >= 10_000
    wrong = [gap for p, r in zip(prompts, running, strict=True) for gap in mismatches(model, p, r.tokens)]
    assert len(wrong) <= 1
    assert all(gap < NEAR_TIE for gap in wrong)
