"""KV cache is sent while its prompt is computed: from the first chunk on, layer by layer, exactly once."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.hand_off.kv_blob import KvBlob
from agents.hand_off.kv_sender import KvSender
from agents.messages.to_stage import SendKv
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import Pipeline, Running
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.exchanges import SMALL, HandOver

CUTS = ((6,), (1, 3, 2)), ((6,), (2, 4))
PATIENCE_S = 60


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.set_num_threads(1)
    folders = {name: tmp_path_factory.mktemp(name) for name in ("qwen3", "gpt-oss")}
    for name, folder in folders.items():
        save_model(name, folder)
    return folders


def until(condition: Any) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_s


def positions_to_come(at: HandOver, run: int) -> int:
    """At the first node of the target, over all its layers."""
    return at.receivers[0].inbox._coming[run].missing


def held_by_senders(at: HandOver) -> list[int]:
    links = [link for sender in at.senders for link in list(sender._links.values()) if isinstance(link, KvSender)]
    return [run for link in links for run in list(link._blobs)]  # the schedulers go on meanwhile


@contextmanager
def stopped_before_layer_3(at: HandOver, running: Running) -> Iterator[None]:
    """Inside, a step of the one source node is in the middle of its layers, on a thread of its own."""
    engine: Any = at.source.stages[0]
    stage, reached, opened = engine._engine._open(), threading.Event(), threading.Event()
    layers: list[Any] = list(stage.layers)

    def stops(*arguments: Any) -> torch.Tensor:
        reached.set()
        assert opened.wait(PATIENCE_S)
        return stage.layers[3](*arguments)

    layers[3] = stops
    engine._engine._stage = replace(stage, layers=tuple(layers))
    step = threading.Thread(target=at.source.step, args=([running], 1024))
    step.start()
    try:
        assert reached.wait(PATIENCE_S)
        yield
    finally:
        opened.set()
        step.join(PATIENCE_S)
        engine._engine._stage = stage


@pytest.mark.parametrize("chunk", [1024, 16, 7])
@pytest.mark.parametrize(
    ("model", "source", "target"), [*(("gpt-oss", *cuts) for cuts in product(*CUTS)), ("qwen3", (4, 2), (1, 3, 2))]
)
def test_prompts_of_one_and_several_chunks_go_on_with_the_tokens_of_one_engine(
    checkpoints: dict[str, Path], model: str, source: tuple[int, ...], target: tuple[int, ...], chunk: int
) -> None:
    """The order to send comes before the first step, amid the steps, or behind the last."""
    whole = Pipeline.load(open_checkpoint(checkpoints[model]), [LAYERS])
    with HandOver(checkpoints[model], source, target) as at:
        at.open()
        for run, (length, told_after) in enumerate(((70, 0), (33, 1), (16, 99), (1, 0)), start=1):
            at.reserve(run, length)
            running, steps = Running(str(run + 100), tuple(prompt_of(length, run))), 0
            while not running.tokens:
                if steps == told_after:
                    at.send(run + 100, run, length)
                (running,) = at.source.step([running], chunk)
                steps += 1
            if steps <= told_after:
                at.send(run + 100, run, length)
            at.wait(lambda run=run: at.has_arrived(run))
            assert sum(at.arrived[run]) == at.kv_bytes(length)
            assert at.decode(run, running, 12) == whole.generate(prompt_of(length, run), 12)
        until(lambda: not held_by_senders(at))
        assert not at.broken


def test_layers_that_are_computed_are_there_while_the_others_are_not(checkpoints: dict[str, Path]) -> None:
    with HandOver(checkpoints["qwen3"], (6,), (6,)) as at:
        at.open()
        at.reserve(2, 60)
        at.send(1, 2, 60)
        with stopped_before_layer_3(at, Running("1", tuple(prompt_of(60)))):
            until(lambda: positions_to_come(at, 2) == 3 * 60)
            assert not at.has_arrived(2)
        at.wait(lambda: at.has_arrived(2))


def test_another_request_goes_over_the_link_while_one_is_still_computed(checkpoints: dict[str, Path]) -> None:
    with HandOver(checkpoints["qwen3"], (6,), (6,)) as at:
        at.open()
        at.prefill(7, prompt_of(40, 7))
        at.reserve(2, 60)
        at.reserve(8, 40)
        at.send(1, 2, 60)
        with stopped_before_layer_3(at, Running("1", tuple(prompt_of(60)))):
            at.send(7, 8, 40)
            at.wait(lambda: at.has_arrived(8))
            assert not at.has_arrived(2)
        at.wait(lambda: at.has_arrived(2))


def test_a_link_is_not_woken_for_a_prompt_that_waits_while_others_are_computed(checkpoints: dict[str, Path]) -> None:
    """Each wake takes the engine's lock from it, some thirty times a step."""
    with HandOver(checkpoints["qwen3"], (LAYERS,), (LAYERS,)) as at:
        (engine,), prompt = at.source.stages, prompt_of(20)
        blob = KvBlob(SendKv("L", 7, 7, 20, 0, LAYERS), engine, SMALL)  # type: ignore[arg-type]
        seen: list[bool] = []
        engine.watchers.add(lambda: seen.append(blob.is_due()))  # type: ignore[attr-defined]
        at.prefill(1, prompt)
        assert seen
        assert not any(seen)
        at.prefill(7, prompt)
        assert seen[-1]


@pytest.mark.parametrize("after", range(4))
def test_a_link_that_breaks_amid_a_prompt_goes_on_where_it_was(checkpoints: dict[str, Path], after: int) -> None:
    with HandOver(checkpoints["gpt-oss"], (2, 4), (3, 3)) as at:
        at.open()
        at.reserve(2, 220)
        at.send(1, 2, 220)
        running, steps = Running("1", tuple(prompt_of(220))), 0
        while not running.tokens:
            (running,) = at.source.step([running], 64)
            if steps == after:
                for receiver in at.receivers:
                    for link in receiver._links.values():
                        link.close()
            steps += 1
        at.wait(lambda: at.broken or at.has_arrived(2))
        at.open_until_arrived(2, epoch=2)
        assert sum(at.arrived[2]) < 2 * at.kv_bytes(220)
        whole = Pipeline.load(open_checkpoint(checkpoints["gpt-oss"]), [LAYERS])
        assert at.decode(2, running, 8) == whole.generate(prompt_of(220), 8)
        at.open(epoch=100)  # the last acknowledgement may have been lost with the link: senders hold on until it comes
        until(lambda: not held_by_senders(at))


@pytest.mark.parametrize("is_target", [False, True])
def test_a_request_that_ends_amid_its_prompt_leaves_nothing_and_holds_up_no_other(
    checkpoints: dict[str, Path], is_target: bool
) -> None:
    with HandOver(checkpoints["qwen3"], (6,), (2, 4)) as at:
        at.open()
        at.reserve(12, 60)
        at.send(2, 12, 60)
        (running,) = at.source.step([Running("2", tuple(prompt_of(60, 2)))], 32)
        if is_target:
            for receiver, stage in zip(at.receivers, at.target.stages, strict=True):
                receiver.forget(12)
                stage.free("12")
            (running,) = at.source.step([running], 32)
        else:
            for sender, stage in zip(at.senders, at.source.stages, strict=True):
                sender.forget(2)
                stage.free("2")
        until(lambda: not held_by_senders(at))
        prefilled = at.prefill(3, prompt_of(50, 3))
        at.reserve(13, 50)
        at.send(3, 13, 50)
        at.wait(lambda: at.has_arrived(13))
        whole = Pipeline.load(open_checkpoint(checkpoints["qwen3"]), [LAYERS])
        assert at.decode(13, prefilled, 8) == whole.generate(prompt_of(50, 3), 8)
        assert 12 not in at.arrived
        assert not at.broken
