"""Memory that an engine lends is what it would have copied, in the same order, as long as its request is there."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.engines.errors import BadBatchError, UnknownRequestError
from agents.engines.guarded_engine import GuardedEngine
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.sharded_engine import load_sharded_engine
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running, exported
from tests.agents.engines.tiny_models import LAYERS, prompt_of

Made = Callable[[str], TinyModel]
WHOLE = LayerRange.whole(LAYERS)
TOKENS = 100


@pytest.fixture
def engine(tiny_model: Made) -> Iterator[GuardedEngine]:
    """Layers with a window and without; blocks of several requests among each other."""
    with closing(load_torch_engine(tiny_model("gpt-oss")[0], WHOLE, 64, torch.float32, DEVICE)) as torch_engine:
        guarded = GuardedEngine(torch_engine)
        requests = [Running(name, tuple(prompt_of(TOKENS, seed))) for seed, name in enumerate(("x", "y"))]
        while not all(request.tokens for request in requests):
            requests = Pipeline([guarded]).step(requests, 24)
        yield guarded


def lent(engine: GuardedEngine, request_id: str, part: KvPart) -> torch.Tensor:
    assert engine.lent_kv is not None
    with engine.lent_kv(request_id, part)() as pieces:
        return torch.frombuffer(bytearray(b"".join(pieces)), dtype=engine.facts.dtype)


def parts(engine: GuardedEngine) -> st.SearchStrategy[KvPart]:
    def of(layers: tuple[int, int]) -> st.SearchStrategy[KvPart]:
        first, end = min(layers), max(layers) + 1
        kept = max(engine.first_kept_token(layer, TOKENS) for layer in range(first, end))
        ends = st.tuples(st.integers(kept, TOKENS - 1), st.integers(kept, TOKENS - 1))
        heads = engine.facts.kv_heads
        return ends.map(lambda e: KvPart(first, end - first, 0, heads, min(e), max(e) - min(e) + 1))

    return st.tuples(st.integers(0, LAYERS - 1), st.integers(0, LAYERS - 1)).flatmap(of)


def test_it_is_what_would_be_exported_and_imported(engine: GuardedEngine) -> None:
    engine.reserve("coming", TOKENS)

    @given(parts(engine))
    def of(part: KvPart) -> None:
        expected = exported(engine, "x", part)
        assert torch.equal(lent(engine, "x", part), expected.flatten())
        engine.import_kv("coming", part, expected)
        assert torch.equal(lent(engine, "coming", part), expected.flatten())

    of()


def test_what_is_written_there_belongs_to_the_request(engine: GuardedEngine) -> None:
    engine.reserve("coming", TOKENS)
    part = KvPart(0, 1, 0, engine.facts.kv_heads, engine.first_kept_token(0, TOKENS), 7)
    assert engine.lent_kv is not None
    with engine.lent_kv("x", part)() as source, engine.lent_kv("coming", part)() as target:
        for ours, theirs in zip(source, target, strict=True):
            theirs[:] = ours
    assert torch.equal(exported(engine, "coming", part), exported(engine, "x", part))


def test_it_is_lent_until_the_request_is_freed(engine: GuardedEngine) -> None:
    part = KvPart(0, LAYERS, 0, engine.facts.kv_heads, TOKENS - 1, 1)
    assert engine.lent_kv is not None
    freed, other = engine.lent_kv("x", part), engine.lent_kv("y", part)
    with freed(), other() as before:
        held = [bytes(piece) for piece in before]
    engine.free("x")
    with pytest.raises(UnknownRequestError), freed():
        pass
    engine.reserve("x", TOKENS)
    with other() as after:
        assert [bytes(piece) for piece in after] == held


def test_parts_that_are_not_there_are_not_lent(engine: GuardedEngine) -> None:
    heads = engine.facts.kv_heads
    for part in (KvPart(0, LAYERS + 1, 0, heads, 99, 1), KvPart(0, 1, 0, heads, 99, 2), KvPart(0, 1, 0, 1, 99, 1)):
        with pytest.raises(BadBatchError):
            lent(engine, "x", part)
    with pytest.raises(UnknownRequestError):
        lent(engine, "nobody", KvPart(0, 1, 0, heads, 99, 1))


def test_an_engine_of_several_devices_lends_nothing(tiny_model: Made) -> None:
    path = tiny_model("gpt-oss")[0].path  # type: ignore[attr-defined]
    with closing(load_sharded_engine(path, WHOLE, 8, torch.float32, (DEVICE, DEVICE), True, 30)) as sharded:
        assert GuardedEngine(sharded).lent_kv is None
