"""Drafts are verified: whatever was drafted, tokens are those without, and no KV block is lost."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import BadBatchError
from agents.engines.layer_range import LayerRange
from agents.engines.sampling import GREEDY, LogitRules, Sampling
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.logit_rules import RuledRequests
from agents.engines.torch_engine.sampler import sample
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.drafted_answers import answered
from tests.agents.engines.pipelines import DEVICE, Pipeline
from tests.agents.engines.tiny_models import LAYERS, assert_same, prompt_of, reference

Made = Callable[[str], TinyModel]
PROMPT, TOKENS = prompt_of(45), 30
RULES = LogitRules(0.4, 0.3, 1.3, 0.02, ((5, 1.5), (9, -2.0)), (7, 11), 60)
"""Penalties count what was chosen: a wrong draft that was counted would show."""


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2-windowed", "qwen3-moe", "gpt-oss"])
def test_greedy_tokens_are_those_of_transformers(tiny_model: Made, name: str) -> None:
    """Windows are shorter than the text, so that what a wrong draft would give back too early is missed."""
    checkpoint, model = tiny_model(name)
    expected = reference(model, PROMPT, TOKENS)
    pipeline = Pipeline.load(checkpoint, [2, 4])
    for tokens in answered(pipeline, PROMPT, expected[0], requests=3):
        assert_same(tokens, expected)
    assert [stage.free_kv_blocks for stage in pipeline.stages] == [64, 64]


@pytest.mark.parametrize("rules", [None, RULES], ids=["plain", "ruled"])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.9, 0.95, 40, 11), Sampling(1.2, 0.9, 0, 5)], ids=str)
def test_drawn_and_ruled_tokens_are_those_without_drafts(
    tiny_model: Made, sampling: Sampling, rules: LogitRules | None
) -> None:
    pipeline = Pipeline.load(tiny_model("qwen3")[0], [LAYERS])
    expected = pipeline.generate(PROMPT, TOKENS, sampling=sampling, rules=rules)
    assert answered(pipeline, PROMPT, expected, sampling, rules, requests=2) == [expected] * 2


LOGITS = torch.eye(6)[[2, 4, 1]] * 9
"""Rows whose likeliest tokens are 2, 4 and 1."""


@pytest.mark.parametrize(
    ("draft", "expected"), [((2, 4), [2, 4, 1]), ((2, 3), [2, 4]), ((3, 4), [2]), ((2, 1), [2, 4])], ids=str
)
def test_tokens_come_as_far_as_the_draft_is_right_each_with_its_log_probabilities(
    draft: tuple[int, ...], expected: list[int]
) -> None:
    request = StepRequest("a", 7, 3, Sampling(logprobs=1), draft=draft)
    other = StepRequest("b", 0, 4, Sampling(logprobs=1))
    made = sample([request, other], torch.cat((LOGITS, LOGITS[:1])), RuledRequests(None))
    assert [(each.request_id, each.token_id) for each in made] == [*(("a", token) for token in expected), ("b", 2)]
    for each, row in zip(made, (*LOGITS[: len(expected)], LOGITS[0]), strict=True):
        assert each.logprob == pytest.approx(float(row.log_softmax(-1)[each.token_id]))
        assert each.alternatives[0][0] == each.token_id


def test_nothing_is_chosen_behind_a_stop_token() -> None:
    request = StepRequest("a", 7, 3, Sampling(stop_token_ids=(4,)), draft=(2, 4))
    made = sample([request], LOGITS, RuledRequests(None))
    assert [(each.token_id, each.stop) for each in made] == [(2, False), (4, True)]


BLOCKS = 12


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["llama", "gpt-oss"]),
    moves=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 20), st.integers(0, 9), st.integers(0, 9)), max_size=25),
)
def test_whatever_is_right_blocks_are_those_of_the_longest_reach(
    tiny_model: Made, name: str, moves: list[tuple[int, int, int, int]]
) -> None:
    """(request, known tokens, tokens of the draft, as many of them as were right)"""
    engine = load_torch_engine(tiny_model(name)[0], LayerRange(0, 2, True, False), BLOCKS, torch.float32, DEVICE)
    cached, reach = dict[str, int](), dict[str, int]()
    for number, known, drafted, right in moves:
        request = f"r{number}"
        at = cached.get(request, 0)
        if max(at + known + drafted, sum(reach.values())) > 120:
            engine.free(request)
            cached.pop(request, None)
            reach.pop(request, None)
            continue
        batch = StepBatch((StepRequest(request, at, known + drafted, draft=tuple(prompt_of(drafted))),))
        assert not engine.kv_blocks_short(batch)
        engine.step(batch, torch.tensor(prompt_of(batch.tokens)))
        cached[request] = at + known + min(right, drafted)
        reach[request] = max(reach.get(request, 0), at + known + drafted)
        held = sum(-(-tokens // engine.facts.block_tokens) for tokens in reach.values())
        if name == "llama":
            assert engine.free_kv_blocks == BLOCKS - held
        assert engine.free_kv_blocks >= BLOCKS - held
    for request in cached:
        engine.free(request)
    assert engine.free_kv_blocks == BLOCKS


def test_what_is_no_draft_is_refused_before_anything_changes(tiny_model: Made) -> None:
    engine = load_torch_engine(tiny_model("llama")[0], LayerRange.whole(LAYERS), BLOCKS, torch.float32, DEVICE)
    engine.step(StepBatch((StepRequest("a", 0, 20, GREEDY),)), torch.tensor(prompt_of(20)))
    free = engine.free_kv_blocks
    for refused in (
        StepRequest("a", 20, 3, draft=(1, 2)),  # nobody would know what is right
        StepRequest("a", 20, 2, GREEDY, draft=(1, 2)),  # behind nothing
        StepRequest("a", 21, 1, GREEDY),  # behind a token that was no draft
    ):
        with pytest.raises(BadBatchError):
            engine.step(StepBatch((refused,)), torch.tensor(prompt_of(refused.tokens)))
    assert engine.free_kv_blocks == free
    engine.step(StepBatch((StepRequest("a", 20, 4, GREEDY, draft=(1, 2, 3)),)), torch.tensor([5, 1, 2, 3]))
    for position in (20, 25):  # before what is known, and behind the draft
        with pytest.raises(BadBatchError):
            engine.step(StepBatch((StepRequest("a", position, 1, GREEDY),)), torch.tensor([5]))
    engine.step(StepBatch((StepRequest("a", 22, 1, GREEDY),)), torch.tensor([5]))
