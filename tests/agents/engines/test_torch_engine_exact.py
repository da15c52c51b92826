"""Greedy output of the torch engine is that of transformers, token for token in fp32, however the model is cut."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.weights.source import open_checkpoint
from templates_lib.cost.row_padding import MOST_ROWS
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import Pipeline, Running, hand_over
from tests.agents.engines.tiny_models import LAYERS, MODELS, assert_same, prompt_of, reference

Made = Callable[[str], TinyModel]
PROMPT = prompt_of(45)
TOKENS = 12


@pytest.mark.parametrize("name", MODELS)
def test_one_stage(tiny_model: Made, name: str) -> None:
    checkpoint, model = tiny_model(name)
    assert_same(Pipeline.load(checkpoint, [LAYERS]).generate(PROMPT, TOKENS), reference(model, PROMPT, TOKENS))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layers", [(1, 5), (3, 1, 2), (1, 2, 1, 2)], ids=str)
def test_uneven_stages_with_a_chunked_prompt(tiny_model: Made, name: str, layers: tuple[int, ...]) -> None:
    checkpoint, model = tiny_model(name)
    tokens = Pipeline.load(checkpoint, layers).generate(PROMPT, TOKENS, chunk=17)
    assert_same(tokens, reference(model, PROMPT, TOKENS))


@pytest.mark.parametrize("name", ["llama", "qwen2-windowed", "gpt-oss"])
@pytest.mark.parametrize("chunk", [1, 5, 16, 31, 45])
def test_every_chunk_size_gives_the_same_tokens(tiny_model: Made, name: str, chunk: int) -> None:
    checkpoint, model = tiny_model(name)
    tokens = Pipeline.load(checkpoint, [LAYERS]).generate(PROMPT, TOKENS, chunk)
    assert_same(tokens, reference(model, PROMPT, TOKENS))


@pytest.mark.parametrize("name", ["mistral", "qwen3-moe", "gpt-oss"])
def test_requests_join_and_leave_a_running_batch(tiny_model: Made, name: str) -> None:
    """A new request every other step, prompts of very different lengths, prefill chunks and decodes in one batch."""
    checkpoint, model = tiny_model(name)
    pipeline = Pipeline.load(checkpoint, [2, 4])
    prompts = {f"r{i}": prompt_of(length, i) for i, length in enumerate((3, 70, 16, 1, 33))}
    waiting = list(prompts)
    running: list[Running] = []
    finished: dict[str, list[int]] = {}
    for step in range(60):
        if waiting and step % 2 == 0:
            running.append(Running(waiting[0], tuple(prompts[waiting.pop(0)])))
        running = pipeline.step(running, chunk=16)
        for request in [r for r in running if len(r.tokens) == TOKENS]:
            finished[request.id] = list(request.tokens)
            pipeline.free(request.id)
            running.remove(request)
        if not running and not waiting:
            break
    assert finished.keys() == prompts.keys()
    for request_id, prompt in prompts.items():
        assert_same(finished[request_id], reference(model, prompt, TOKENS))
    assert [stage.free_kv_blocks for stage in pipeline.stages] == [64, 64]


@pytest.mark.parametrize("name", ["llama", "qwen2-windowed", "gpt-oss"])
def test_a_step_of_several_tiles_of_rows(tiny_model: Made, name: str) -> None:
    """The third and the last prompt go on in the tile after the one that they begin in."""
    checkpoint, model = tiny_model(name)
    pipeline = Pipeline.load(checkpoint, [2, 4], blocks=96)
    running = [Running(f"r{i}", tuple(prompt_of(195 + i, i))) for i in range(6)]
    assert sum(len(request.pending) for request in running) > 2 * MOST_ROWS
    prompts = [list(request.pending) for request in running]
    for _ in range(TOKENS):
        running = pipeline.step(running, chunk=256)
    for request, prompt in zip(running, prompts, strict=True):
        assert_same(list(request.tokens), reference(model, prompt, TOKENS))


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt-oss"])
def test_decode_goes_on_where_the_layers_are_cut_differently(tiny_model: Made, name: str) -> None:
    checkpoint, model = tiny_model(name)
    prefill, decode = Pipeline.load(checkpoint, [4, 2]), Pipeline.load(checkpoint, [1, 2, 3])
    (after_prompt,) = prefill.step([Running("x", tuple(PROMPT))], chunk=64)
    moved = hand_over("x", len(PROMPT), prefill, decode)
    prefill.free("x")
    running = after_prompt
    while len(running.tokens) < TOKENS:
        (running,) = decode.step([running], chunk=1)
    assert_same(list(running.tokens), reference(model, PROMPT, TOKENS))
    facts = decode.stages[0].facts
    kept = sum(len(PROMPT) - s.first_kept_token(i, len(PROMPT)) for s in prefill.stages for i in _held(s.facts.held))
    assert moved == kept * 2 * facts.kv_heads * facts.head_dim * 4
    assert prefill.stages[0].free_kv_blocks == 64


def _held(held) -> range:
    return range(held.first_layer, held.end)


def test_a_base_model_without_a_head_is_read_as_embeddings_are_published(tiny_model: Made, tmp_path: Path) -> None:
    _, model = tiny_model("qwen3")
    model.base_model.save_pretrained(tmp_path)
    prompt = prompt_of(20)
    assert_same(Pipeline.load(open_checkpoint(tmp_path), [2, 4]).generate(prompt, 8), reference(model, prompt, 8))
