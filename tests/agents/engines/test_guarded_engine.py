"""KV cache is copied while the engine is in a step, exactly; a request is not freed while it is copied."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import UnknownRequestError
from agents.engines.guarded_engine import GuardedEngine
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from agents.engines.torch_engine.sharded_engine import ShardedEngine, load_sharded_engine
from agents.hand_off.chunk import cut
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running, exported
from tests.agents.engines.tiny_models import LAYERS, prompt_of

Made = Callable[[str], TinyModel]
WHOLE = LayerRange.whole(LAYERS)
TOKENS = 40
BLOCKS = 64
PATIENCE_S = 120


@pytest.fixture
def engine(tiny_model: Made) -> TorchEngine:
    return load_torch_engine(tiny_model("gpt-oss")[0], WHOLE, BLOCKS, torch.float32, DEVICE)


@pytest.fixture(params=["one device", "two devices"])
def any_engine(request: pytest.FixtureRequest, tiny_model: Made) -> Iterator[TorchEngine | ShardedEngine]:
    checkpoint = tiny_model("gpt-oss")[0]
    if request.param == "one device":
        yield load_torch_engine(checkpoint, WHOLE, BLOCKS, torch.float32, DEVICE)
        return
    path: Path = checkpoint.path  # type: ignore[attr-defined]
    sharded = load_sharded_engine(path, WHOLE, BLOCKS, torch.float32, (DEVICE, DEVICE), True, PATIENCE_S)
    yield sharded
    sharded.close()


def _is_copied(engine: GuardedEngine, part: KvPart) -> bool:
    try:
        exported(engine, "x", part)
    except UnknownRequestError:
        return False
    return True


class Gate:
    """Who comes to it says so, and waits until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_(self) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE_S)


@contextmanager
def stopped_step(engine: TorchEngine | ShardedEngine) -> Iterator[None]:
    """Inside, a step of another request is in the middle of its layers, on a thread of its own."""
    local = engine._local if isinstance(engine, ShardedEngine) else engine
    stage, gate = local._open(), Gate()
    layers: list[Any] = list(stage.layers)

    def stops(*arguments: Any) -> torch.Tensor:
        gate.pass_()
        return stage.layers[3](*arguments)

    layers[3] = stops
    local._stage = replace(stage, layers=tuple(layers))
    with ThreadPoolExecutor(1) as thread:
        step = thread.submit(engine.step, StepBatch((StepRequest("long", 0, TOKENS),)), torch.tensor(prompt_of(TOKENS)))
        try:
            assert gate.reached.wait(PATIENCE_S)
            yield
            assert not step.done()
        finally:
            gate.opened.set()
            local._stage = stage
            step.result(PATIENCE_S)


class StoppedCopy:
    """An engine whose first copy stops at a gate."""

    def __init__(self, engine: TorchEngine) -> None:
        self._engine = engine
        self.gate = Gate()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        if not self.gate.reached.is_set():
            self.gate.pass_()
        self._engine.export_kv(request_id, part, out)


def parts(engine: Any, tokens: int) -> list[KvPart]:
    """In chunks of a few blocks."""
    return list(cut(engine, tokens, 0, LAYERS, 3000))


def prefill(engine: Any, name: str, tokens: int) -> Running:
    (running,) = Pipeline([engine]).step([Running(name, tuple(prompt_of(tokens, len(name))))], 1024)
    return running


def test_copies_do_not_wait_for_a_step(any_engine: TorchEngine | ShardedEngine) -> None:
    guarded = GuardedEngine(any_engine)
    prefill(guarded, "done", TOKENS)
    guarded.reserve("coming", TOKENS)
    expected = [exported(guarded, "done", part) for part in parts(any_engine, TOKENS)]
    with stopped_step(any_engine):
        for part, before in zip(parts(any_engine, TOKENS), expected, strict=True):
            found = exported(guarded, "done", part)
            assert torch.equal(found, before)
            guarded.import_kv("coming", part, found)
    for part, before in zip(parts(any_engine, TOKENS), expected, strict=True):
        assert torch.equal(exported(guarded, "coming", part), before)
    (running,) = Pipeline([guarded]).step([Running("long", (5,), TOKENS)], 1)
    (alone,) = Pipeline([guarded]).step([Running("alone", (*prompt_of(TOKENS), 5))], 1024)
    assert running.tokens == alone.tokens, "the step that was stopped computed what it should"


def test_room_is_made_during_a_step(any_engine: TorchEngine | ShardedEngine) -> None:
    guarded = GuardedEngine(any_engine)
    prefill(guarded, "done", TOKENS)
    with stopped_step(any_engine):
        before = guarded.free_kv_blocks
        guarded.reserve("coming", TOKENS)
        assert guarded.free_kv_blocks < before
    for part in parts(any_engine, TOKENS):
        guarded.import_kv("coming", part, exported(guarded, "done", part))
    for part in parts(any_engine, TOKENS):
        assert torch.equal(exported(guarded, "coming", part), exported(guarded, "done", part))
    for name in ("done", "coming", "long"):
        guarded.free(name)
    assert guarded.free_kv_blocks == BLOCKS


def test_a_free_waits_for_the_copy_under_way_and_lets_no_other_begin(engine: TorchEngine) -> None:
    prefill(engine, "x", TOKENS)
    part = parts(engine, TOKENS)[0]
    expected = exported(engine, "x", part)
    stopped = StoppedCopy(engine)
    guarded = GuardedEngine(stopped)
    with ThreadPoolExecutor(2) as threads:
        copy = threads.submit(exported, guarded, "x", part)
        assert stopped.gate.reached.wait(PATIENCE_S)
        free = threads.submit(guarded.free, "x")
        give_up_s = time.monotonic() + PATIENCE_S
        while _is_copied(guarded, part):
            assert time.monotonic() < give_up_s, "the free has begun"
        assert not free.done()
        assert engine.free_kv_blocks < BLOCKS
        stopped.gate.opened.set()
        assert torch.equal(copy.result(PATIENCE_S), expected)
        free.result(PATIENCE_S)
    assert engine.free_kv_blocks == BLOCKS


def test_other_requests_are_freed_and_reserved_while_one_is_copied(engine: TorchEngine) -> None:
    prefill(engine, "x", TOKENS)
    prefill(engine, "other", TOKENS)
    stopped = StoppedCopy(engine)
    guarded = GuardedEngine(stopped)
    with ThreadPoolExecutor(1) as thread:
        copy = thread.submit(exported, guarded, "x", parts(engine, TOKENS)[0])
        assert stopped.gate.reached.wait(PATIENCE_S)
        guarded.free("other")
        guarded.reserve("new", TOKENS)
        prefill(guarded, "newer", TOKENS)
        assert not copy.done()
        stopped.gate.opened.set()
        copy.result(PATIENCE_S)


@pytest.mark.parametrize("model", ["gpt-oss", "qwen3"])
def test_what_is_copied_amid_steps_frees_and_cancels_is_exact(tiny_model: Made, model: str) -> None:
    """Two engines compute without a pause while threads hand prompts from one to the other. Some are cancelled on the
    way, at either end; the others go on with the tokens of one engine, and no block is lost."""
    checkpoint = tiny_model(model)[0]
    source, target = (
        GuardedEngine(load_torch_engine(checkpoint, WHOLE, BLOCKS, torch.float32, DEVICE)) for _ in range(2)
    )
    whole = Pipeline.load(checkpoint, [LAYERS], BLOCKS)
    random = Random(3)
    prompts = {f"r{n}": prompt_of(random.randint(1, 90), n) for n in range(20)}
    expected = {name: whole.generate(prompt, 4) for name, prompt in prompts.items()}
    waiting, copies = list(prompts), dict[str, Future[bool]]()
    held: dict[str, Running] = {}
    cancelled: set[str] = set()
    found: dict[str, list[int]] = {}
    with ThreadPoolExecutor(4) as threads:
        while waiting or copies:
            _ = prefill(source, "beside", 64), prefill(target, "beside", 64)
            while waiting and len(copies) < 6:
                name = waiting.pop()
                (held[name],) = Pipeline([source]).step([Running(name, tuple(prompts[name]))], 1024)
                reserved = threads.submit(target.reserve, name, len(prompts[name]))
                _ = prefill(target, f"beside the room of {name}", 64)
                target.free(f"beside the room of {name}")
                reserved.result(PATIENCE_S)
                copies[name] = threads.submit(hand_over, source, target, name, len(prompts[name]))
                if random.random() < 0.3:
                    cancelled.add(name)
                    random.choice((source, target)).free(name)
            source.free("beside")
            target.free("beside")
            if len(copies) == 6 or not waiting:
                wait(copies.values(), PATIENCE_S, FIRST_COMPLETED)
            for name in [name for name, copy in copies.items() if copy.done()]:
                if copies.pop(name).result() and name not in cancelled:
                    found[name] = decoded(target, held[name], 4)
                source.free(name)
                target.free(name)
    assert found == {name: tokens for name, tokens in expected.items() if name not in cancelled}
    assert source.free_kv_blocks == target.free_kv_blocks == BLOCKS


def hand_over(source: GuardedEngine, target: GuardedEngine, name: str, tokens: int) -> bool:
    """False where it is cancelled meanwhile."""
    try:
        for part in parts(source, tokens):
            target.import_kv(name, part, exported(source, name, part))
    except UnknownRequestError:
        return False
    return True


def decoded(engine: GuardedEngine, running: Running, tokens: int) -> list[int]:
    while len(running.tokens) < tokens:
        (running,) = Pipeline([engine]).step([running], 1)
    return list(running.tokens)
