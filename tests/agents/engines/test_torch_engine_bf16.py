"""bf16: log probabilities on given text are as near to fp32 as those of transformers in bf16.

Tolerance, over the 20 likeliest tokens at each place: the engine's mean error against fp32 is at most 1.25 times that
of transformers in bf16 on the same weights and text. bf16 has 8 bits; what differs is the order of roundings.
"""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from agents.engines.batch import StepRequest
from agents.engines.sampling import Sampling
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, MODELS, prompt_of, save_model

TEXT = prompt_of(48)
FACTOR = 1.25


@torch.inference_mode()
def by_transformers(model: PreTrainedModel) -> torch.Tensor:
    """(tokens, vocabulary) log probabilities after each token of TEXT."""
    return model(torch.tensor([TEXT])).logits[0].float().log_softmax(-1)


def by_engine(pipeline: Pipeline) -> list[dict[int, float]]:
    """The likeliest tokens after each token of TEXT, which is fed token by token."""
    sampling = Sampling(logprobs=20)
    found = []
    for position, token in enumerate(TEXT):
        (sample,) = pipeline.forward((StepRequest("x", position, 1, sampling),), [token])
        found.append(dict(sample.alternatives))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_bf16_is_as_near_to_fp32_as_transformers_is(tmp_path: Path, name: str) -> None:
    in_bf16 = save_model(name, tmp_path, torch.bfloat16)
    theirs = by_transformers(in_bf16)
    exact = by_transformers(in_bf16.float())
    ours = by_engine(Pipeline.load(open_checkpoint(tmp_path), [2, LAYERS - 2], dtype=torch.bfloat16))
    our_error, their_error = [], []
    for place, found in enumerate(ours):
        for token, logprob in found.items():
            our_error.append(abs(logprob - float(exact[place, token])))
            their_error.append(abs(float(theirs[place, token] - exact[place, token])))
    assert torch.tensor(our_error).mean() <= FACTOR * torch.tensor(their_error).mean()
