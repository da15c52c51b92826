"""Sampling: a function of logits, settings, seed and position, with the distribution it promises."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.engines.batch import StepRequest
from agents.engines.sampling import Sampling
from agents.engines.torch_engine.logit_rules import RuledRequests
from agents.engines.torch_engine.sampler import sample, uniform
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import Pipeline, Running
from tests.agents.engines.tiny_models import LAYERS, prompt_of

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, -9.0])


def drawn(sampling: Callable[[int], Sampling], logits: torch.Tensor = LOGITS, draws: int = 4000) -> dict[int, float]:
    """Share of each token over many seeds."""
    requests = [StepRequest(str(seed), 7, 1, sampling(seed)) for seed in range(draws)]
    counts = Counter(s.token_id for s in sample(requests, logits.expand(draws, -1), RuledRequests(None)))
    return {token: count / draws for token, count in counts.items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_with_their_probability(temperature: float) -> None:
    shares = drawn(lambda seed: Sampling(temperature, seed=seed))
    for token, probability in enumerate((LOGITS / temperature).softmax(-1).tolist()):
        assert shares.get(token, 0) == pytest.approx(probability, abs=0.025)


def test_top_k_keeps_the_best_and_top_p_the_smallest_set_that_reaches_it() -> None:
    assert drawn(lambda seed: Sampling(1.0, top_k=2, seed=seed)).keys() == {0, 1}
    probabilities = LOGITS.softmax(-1)
    just_two = float(probabilities[:2].sum())
    assert drawn(lambda seed: Sampling(1.0, top_p=just_two - 0.01, seed=seed)).keys() == {0, 1}
    assert drawn(lambda seed: Sampling(1.0, top_p=just_two + 0.01, seed=seed)).keys() == {0, 1, 2}
    assert drawn(lambda seed: Sampling(1.0, top_p=1e-9, seed=seed)).keys() == {0}
    assert drawn(lambda seed: Sampling(1e-4, seed=seed)).keys() == {0}


def test_top_p_of_a_flat_distribution_keeps_its_share_of_a_large_vocabulary() -> None:
    shares = drawn(lambda seed: Sampling(1.0, top_p=0.5, seed=seed), torch.linspace(1e-3, 0, 4000), draws=2000)
    assert max(shares) < 2001
    assert len(shares) > 1000


def test_greedy_takes_the_lowest_id_among_equals_and_stop_tokens_are_marked() -> None:
    (chosen,) = sample(
        [StepRequest("a", 0, 1, Sampling(stop_token_ids=(3,)))],
        torch.tensor([[0.0, 1.0, 1.0, 1.0]]),
        RuledRequests(None),
    )
    assert (chosen.token_id, chosen.stop) == (1, False)
    (chosen,) = sample(
        [StepRequest("a", 0, 1, Sampling(stop_token_ids=(3,)))],
        torch.tensor([[0.0, 0.0, 0.0, 1.0]]),
        RuledRequests(None),
    )
    assert (chosen.token_id, chosen.stop) == (3, True)


def test_log_probabilities_are_the_models_own() -> None:
    sampling = Sampling(temperature=3.0, top_k=2, seed=5, logprobs=3)
    (chosen,) = sample([StepRequest("a", 0, 1, sampling)], LOGITS[None], RuledRequests(None))
    expected = LOGITS.log_softmax(-1).tolist()
    assert chosen.logprob == pytest.approx(expected[chosen.token_id])
    assert [token for token, _ in chosen.alternatives] == [0, 1, 2]
    assert [p for _, p in chosen.alternatives] == pytest.approx(expected[:3])


@given(seed=st.integers(-(2**70), 2**70), position=st.integers(0, 2**20))
def test_draws_lie_in_the_unit_interval(seed: int, position: int) -> None:
    assert 0 <= uniform(seed, position) < 1


def test_draws_of_neighbouring_seeds_and_positions_are_spread_evenly() -> None:
    draws = torch.tensor([[uniform(seed, position) for position in range(200)] for seed in range(200)])
    assert torch.histc(draws, 10, 0, 1).div(draws.numel()).sub(0.1).abs().max() < 0.01
    assert torch.corrcoef(draws).fill_diagonal_(0).abs().max() < 0.4
    assert torch.corrcoef(draws.T).fill_diagonal_(0).abs().max() < 0.4


@pytest.mark.parametrize("fields", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_k": -1}, {"logprobs": 21}])
def test_settings_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        Sampling(**fields)  # type: ignore[arg-type]


def test_a_request_that_goes_on_elsewhere_gets_the_tokens_it_would_have_got(
    tiny_model: Callable[[str], TinyModel],
) -> None:
    """Killed after every possible token and re-prefilled with what was sent, in another cut and another batch."""
    checkpoint, _ = tiny_model("qwen3")
    sampling = Sampling(temperature=1.3, top_p=0.95, top_k=50, seed=11)
    prompt = prompt_of(20)
    whole = Pipeline.load(checkpoint, [LAYERS]).generate(prompt, 10, sampling=sampling)
    assert len(set(whole)) > 3
    elsewhere = Pipeline.load(checkpoint, [2, 3, 1])
    for sent in range(10):
        resumed = Running(f"r{sent}", (*prompt, *whole[:sent]), sampling=sampling)
        running = [resumed, Running(f"other{sent}", tuple(prompt_of(9, sent)), sampling=sampling)]
        while len(running[0].tokens) < 10 - sent:
            running = elsewhere.step(running, chunk=16)
        assert whole[:sent] + list(running[0].tokens) == whole
        for request in running:
            elsewhere.free(request.id)
