"""Encoder apart and decoder apart, in stages, answer as the whole model of transformers does, in fp32."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.given_rows import EmbeddedRows, EncodedRows, GivenRows
from agents.engines.grid_positions import GridSpan
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.shard_commands import Step, commands, encode, step_command
from agents.weights.checkpoint import Checkpoint
from tests.agents.engines.components.graph_requests import (
    REQUESTS,
    GraphRequest,
    intern_request,
    omni_request,
    qwen_request,
    sound_request,
    text_request,
)
from tests.agents.engines.components.split_model import Inputs, SplitPipeline, encoded
from tests.agents.engines.components.tiny_graphs import LAYERS, VIDEO_TOKEN
from tests.agents.engines.pipelines import DEVICE, Running, hand_over
from tests.agents.engines.shards import ranks
from tests.agents.engines.tiny_models import assert_same, reference

Made = Callable[[str], tuple[Checkpoint, PreTrainedModel]]
TOKENS = 8
DECODERS: dict[str, Callable[[PreTrainedModel], Any]] = {
    "qwen-vl": lambda model: model.model.language_model,
    "internvl": lambda model: model.model.language_model,
    "omni": lambda model: model.thinker.model,
    "whisper": lambda model: model.model.decoder,
}
STAGES = [(6,), (1, 5), (3, 1, 2), (1, 2, 1, 2)]


@cache
def asked(model: PreTrainedModel, name: str) -> tuple[GraphRequest, tuple[list[int], list[float]]]:
    """A request with images or sound, and what the whole model answers: worked out once."""
    request = REQUESTS[name](model, 1)
    return request, reference(request.whole, request.prompt, TOKENS)


def answer(pipeline: SplitPipeline, request: GraphRequest, inputs: Inputs, chunk: int = 512) -> list[int]:
    pipeline.inputs["only"] = inputs
    return pipeline.generate(request.prompt, TOKENS, chunk)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("layers", STAGES, ids=str)
def test_any_stages_answer_as_the_whole_model(tiny_graph: Made, name: str, layers: tuple[int, ...]) -> None:
    """A chunk of 7 tokens cuts each image."""
    checkpoint, model = tiny_graph(name)
    request, expected = asked(model, name)
    inputs = encoded(request, checkpoint, name)
    assert_same(answer(SplitPipeline.load(checkpoint, layers), request, inputs, chunk=7), expected)


@pytest.mark.parametrize("chunk", [1, 4, 16, 512])
def test_any_chunk_of_a_prompt_with_images(tiny_graph: Made, chunk: int) -> None:
    checkpoint, model = tiny_graph("qwen-vl")
    request, expected = asked(model, "qwen-vl")
    inputs = encoded(request, checkpoint, "qwen-vl")
    assert_same(answer(SplitPipeline.load(checkpoint, [2, 4]), request, inputs, chunk), expected)


def test_a_video_is_placed_by_frames(tiny_graph: Made) -> None:
    checkpoint, model = tiny_graph("qwen-vl")
    request = qwen_request(model, 3, ((3, 6, 8),), VIDEO_TOKEN)
    inputs = encoded(request, checkpoint, "qwen-vl")
    tokens = answer(SplitPipeline.load(checkpoint, [6]), request, inputs, chunk=9)
    assert_same(tokens, reference(request.whole, request.prompt, TOKENS))


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("qwen-vl", [lambda model: qwen_request(model, 5, ((1, 2, 14),)), lambda model: text_request(model, 6)]),
        ("internvl", [lambda model: intern_request(model, 5, (2,)), lambda model: text_request(model, 6)]),
        ("omni", [lambda model: omni_request(model, 5, (16_000,))]),
        ("whisper", [lambda model: sound_request(model, 5, 300), lambda model: sound_request(model, 6, 16_000)]),
    ],
)
def test_requests_of_all_kinds_join_one_batch(
    tiny_graph: Made, name: str, others: list[Callable[[PreTrainedModel], GraphRequest]]
) -> None:
    """Text, images and sound, prompts and single tokens in one step; all memory comes back."""
    checkpoint, model = tiny_graph(name)
    requests = {"a": REQUESTS[name](model, 4)} | {f"b{i}": other(model) for i, other in enumerate(others)}
    pipeline = SplitPipeline.load(checkpoint, [4, 2])
    waiting, running, finished = list(requests), list[Running](), dict[str, list[int]]()
    while waiting or running:
        if waiting:
            pipeline.inputs[waiting[0]] = encoded(requests[waiting[0]], checkpoint, name)
            running.append(Running(waiting[0], tuple(requests[waiting.pop(0)].prompt)))
        running = pipeline.step(running, chunk=11)
        for request in [each for each in running if len(each.tokens) == TOKENS]:
            finished[request.id] = list(request.tokens)
            pipeline.free(request.id)
            running.remove(request)
    for request_id, request in requests.items():
        assert_same(finished[request_id], reference(request.whole, request.prompt, TOKENS))
    assert [stage.free_kv_blocks for stage in pipeline.stages] == [64, 64]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_goes_on_after_a_hand_off(tiny_graph: Made, name: str) -> None:
    """To stages cut otherwise. Rows of images are in the KV cache by then, those of an encoder are given again."""
    checkpoint, model = tiny_graph(name)
    request, expected = asked(model, name)
    inputs = encoded(request, checkpoint, name)
    source, target = SplitPipeline.load(checkpoint, [2, 4]), SplitPipeline.load(checkpoint, [1, 3, 2])
    source.inputs["r"] = target.inputs["r"] = inputs
    running = [Running("r", tuple(request.prompt))]
    while len(running[0].tokens) < 3:
        running = source.step(running, chunk=13)
    hand_over("r", running[0].position, source, target)
    source.free("r")
    while len(running[0].tokens) < TOKENS:
        running = target.step(running, chunk=13)
    assert_same(list(running[0].tokens), expected)
    target.free("r")
    for pipeline in (source, target):
        assert [stage.free_kv_blocks for stage in pipeline.stages] == [64] * len(pipeline.stages)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("layers", [(6,), (2, 1, 3)], ids=str)
@torch.inference_mode()
def test_hidden_rows_are_those_of_the_whole_model(tiny_graph: Made, name: str, layers: tuple[int, ...]) -> None:
    """Behind the last norm, of chunks that cut images."""
    checkpoint, model = tiny_graph(name)
    request = REQUESTS[name](model, 8)
    pipeline = SplitPipeline.load(checkpoint, layers)
    pipeline.inputs["r"] = encoded(request, checkpoint, name)
    pipeline.hands_out_rows = True
    running = [Running("r", tuple(request.prompt))]
    while not running[0].tokens:
        running = pipeline.step(running, chunk=9)
    kept: list[torch.Tensor] = []
    decoder = DECODERS[name](model)
    hook = decoder.register_forward_hook(lambda _module, _arguments, output: kept.append(output.last_hidden_state[0]))
    request.whole(torch.tensor([request.prompt]))
    hook.remove()
    torch.testing.assert_close(torch.cat(pipeline.rows), kept[0], rtol=1e-5, atol=5e-5)  # sums in another order


@pytest.mark.parametrize("name", ["qwen-vl", "whisper"])
def test_two_ranks_of_a_decoder_are_given_the_same_rows(tiny_graph: Made, name: str) -> None:
    checkpoint, model = tiny_graph(name)
    request, expected = asked(model, name)
    inputs = encoded(request, checkpoint, name)
    held = LayerRange.whole(LAYERS)
    with ranks(2, whole_experts=False) as cut:
        each = cut.each(lambda rank: load_torch_engine(checkpoint, held, 32, torch.float32, DEVICE, cut.shards[rank]))
        for tokens in cut.each(lambda rank: answer(SplitPipeline([each[rank]]), request, inputs, 13)):
            assert_same(tokens, expected)


@torch.inference_mode()
def test_other_ranks_are_told_what_is_given() -> None:
    given = GivenRows((EmbeddedRows("a", 1, torch.randn(2, 4)),), (EncodedRows("b", torch.randn(3, 4)),))
    requests = (StepRequest("a", 0, 4, grids=(GridSpan(1, 1, 1, 2),)), StepRequest("b", 7, 1, hands_out_rows=True))
    command = commands.decode(encode(step_command(StepBatch(requests, given), torch.arange(5))))
    assert isinstance(command, Step)
    told = command.whole_batch()
    assert told.requests == requests
    pairs = zip((*given.embedded, *given.encoded), (*told.given.embedded, *told.given.encoded), strict=True)
    for ours, theirs in pairs:
        assert (ours.request_id, type(ours)) == (theirs.request_id, type(theirs))
        torch.testing.assert_close(theirs.rows, ours.rows, rtol=0, atol=0)
    assert told.given.embedded[0].position == 1


@pytest.mark.parametrize("chunk", [1, 16])
def test_single_tokens_behind_images_as_a_gpu_runs_them(
    tiny_graph: Made, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the device alone, in shapes that come again; single tokens of an image are none of those."""
    monkeypatch.setattr("agents.engines.torch_engine.engine.has_decode_steps", lambda _: True)
    checkpoint, model = tiny_graph("qwen-vl")
    requests = {
        "a": qwen_request(model, 10),
        "b": text_request(model, 11, 3),
        "c": qwen_request(model, 12, ((1, 4, 8),)),
    }
    pipeline = SplitPipeline.load(checkpoint, [2, 4])
    pipeline.inputs = {name: encoded(request, checkpoint, "qwen-vl") for name, request in requests.items()}
    running = [Running(name, tuple(request.prompt)) for name, request in requests.items()]
    while min(len(each.tokens) for each in running) < TOKENS:
        running = pipeline.step(running, chunk)
    for each in running:
        request = requests[each.id]
        assert_same(list(each.tokens[:TOKENS]), reference(request.whole, request.prompt, TOKENS))


@pytest.mark.parametrize("name", REQUESTS)
def test_memory_of_a_decoder_is_known_before_it_is_loaded(tiny_graph: Made, name: str) -> None:
    checkpoint, model = tiny_graph(name)
    part = decoder_part(checkpoint)
    held = LayerRange.whole(LAYERS)
    need = memory_need(part, decoder_config(part.config), held, torch.float32).weight_bytes
    head = {"omni": lambda: model.thinker.lm_head, "whisper": lambda: None}.get(name, lambda: model.lm_head)()
    modules = [DECODERS[name](model), *([head] if head is not None else [])]
    assert need == 4 * sum(parameter.numel() for module in modules for parameter in module.parameters())
    assert load_torch_engine(checkpoint, held, 8, torch.float32, DEVICE).facts.loaded_bytes == need
