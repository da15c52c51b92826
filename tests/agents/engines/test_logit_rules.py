"""Rules change the logits as transformers' processors and OpenAI's formula do, wherever a request goes on."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import MinPLogitsWarper, RepetitionPenaltyLogitsProcessor

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.sampling import LogitRules, RuledText, Sampling
from agents.engines.torch_engine.logit_rules import RuledChoices, RuledRequests, without_unlikely
from agents.engines.torch_engine.sampler import sample
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import Pipeline, Running
from tests.agents.engines.tiny_models import LAYERS, prompt_of

CPU = torch.device("cpu")
VOCABULARY = 200
texts = st.lists(st.integers(0, VOCABULARY - 1), max_size=150).map(tuple)
seeds = st.integers(0, 1000)


def logits_of(seed: int) -> torch.Tensor:
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 4


def ruled(
    rules: LogitRules, seed: int, prompt: tuple[int, ...] = (), output: tuple[int, ...] = (), told: int = 0
) -> torch.Tensor:
    """Logits behind a text of which the rules are told the prompt and some of the output, and see the rest chosen."""
    choices = RuledChoices(RuledText(rules, prompt, output[:told]), CPU, None)
    for token in output[told:]:
        choices.add(token)
    logits = logits_of(seed)
    changed = choices.ruled(logits, 0)
    assert torch.equal(logits, logits_of(seed)), "log-probabilities are the model's own"
    return changed


@given(prompt=texts, output=texts, told=st.integers(0, 150), penalty=st.floats(0.5, 2), seed=seeds)
def test_repetition_is_punished_as_transformers_does(
    prompt: tuple[int, ...], output: tuple[int, ...], told: int, penalty: float, seed: int
) -> None:
    ours = ruled(LogitRules(repetition_penalty=penalty), seed, prompt, output, told)
    theirs = logits_of(seed)
    if prompt + output:
        theirs = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([prompt + output]), theirs[None])[0]
    assert torch.allclose(ours, theirs)


@given(output=texts, told=st.integers(0, 150), presence=st.floats(-2, 2), frequency=st.floats(-2, 2), seed=seeds)
def test_presence_and_frequency_are_punished_by_openais_formula(
    output: tuple[int, ...], told: int, presence: float, frequency: float, seed: int
) -> None:
    """https://platform.openai.com/docs/guides/text-generation: mu[j] - c[j] * frequency - (c[j] > 0) * presence."""
    ours, times = ruled(LogitRules(presence, frequency), seed, (), output, told), Counter(output)
    expected = [mu - times[j] * frequency - (times[j] > 0) * presence for j, mu in enumerate(logits_of(seed).tolist())]
    assert torch.allclose(ours, torch.tensor(expected), atol=1e-4)


@given(min_p=st.floats(0, 1), seed=seeds)
def test_min_p_keeps_what_transformers_keeps(min_p: float, seed: int) -> None:
    kept = without_unlikely(logits_of(seed), min_p).isfinite()
    theirs = MinPLogitsWarper(min_p)(torch.zeros(1, 1, dtype=torch.int64), logits_of(seed)[None])[0].isfinite()
    shares = logits_of(seed).softmax(-1)
    is_on_the_edge = (shares / shares.max() - min_p).abs() < 1e-6
    assert torch.equal(kept | is_on_the_edge, theirs | is_on_the_edge)


def test_biases_move_a_choice_and_withheld_tokens_wait_for_their_position() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])

    def chosen(position: int, **rules: object) -> int:
        requests, ruled = [StepRequest("a", position - 1, 1, Sampling())], RuledRequests(None)
        text = RuledText(LogitRules(**rules))  # type: ignore[arg-type]
        ruled.begin(StepBatch((StepRequest("a", 0, 1, ruled=text),)), CPU)
        return sample(requests, logits, ruled)[0].token_id

    assert chosen(5, bias=((2, 5.0),)) == 2
    assert chosen(5, bias=((0, -100.0), (1, -100.0))) == 2
    assert chosen(5, withheld=(0, 999), withheld_until=6) == 1
    assert chosen(6, withheld=(0,), withheld_until=6) == 0


@pytest.mark.parametrize(
    "fields", [{"presence_penalty": 3.0}, {"frequency_penalty": -2.1}, {"repetition_penalty": 0.0}, {"min_p": 1.1}]
)
def test_rules_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        LogitRules(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_a_request_with_rules_goes_on_elsewhere_with_the_tokens_it_would_have_got(
    tiny_model: Callable[[str], TinyModel], temperature: float
) -> None:
    checkpoint, _ = tiny_model("qwen3")
    rules = LogitRules(0.5, 0.4, 1.2, 0.01, ((3, 1.0),), (5, 6), 24)
    sampling, prompt = Sampling(temperature, 0.95, seed=11), prompt_of(20)
    alone = Pipeline.load(checkpoint, [LAYERS])
    whole = alone.generate(prompt, 12, sampling=sampling, rules=rules)
    assert whole != alone.generate(prompt, 12, sampling=sampling)
    elsewhere = Pipeline.load(checkpoint, [2, 3, 1])
    for sent in range(12):
        text = RuledText(rules, tuple(prompt), tuple(whole[:sent]))
        running = [Running("r", (*prompt, *whole[:sent]), sampling=sampling, ruled=text)]
        while len(running[0].tokens) < 12 - sent:
            running = elsewhere.step(running, chunk=16)
        elsewhere.free("r")
        assert whole[:sent] + list(running[0].tokens) == whole
