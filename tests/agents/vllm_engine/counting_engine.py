"""Engines for tests of a vLLM instance's scheduler, which count and need no vLLM."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from agents.messages.to_gateway import FinishReason
from agents.messages.to_scheduler import Leg
from agents.vllm_engine.exchange import Ask, EngineLoad, KvFacts, KvNews, Made, Reserved
from agents.vllm_engine.host_kv import HostKv

BLOCKS = 64
KV = KvFacts(kv_heads=2, head_dim=8, dtype="torch.float32", block_tokens=16, windows=(0, 5, 0))


@dataclass
class Counting:
    """An engine whose token is the number of tokens before it; one request holds one block. `gate` holds it up."""

    gate: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    asks: dict[str, tuple[Ask, int]] = field(default_factory=dict)
    begun: dict[str, Ask] = field(default_factory=dict)

    kv: KvFacts | str = "it counts, and keeps no cache"

    @property
    def load(self) -> EngineLoad:
        return EngineLoad(len(self.asks), BLOCKS, BLOCKS - len(self.asks))

    @property
    def has_work(self) -> bool:
        return bool(self.asks)

    def add(self, ask: Ask) -> None:
        if 99 in ask.tokens:
            raise ValueError("99 is no token")
        self.begun[ask.id] = ask
        self.asks[ask.id] = (ask, 0)

    def abort(self, request: str) -> None:
        self.asks.pop(request, None)

    def export(self, request: str) -> None:
        raise AssertionError(f"nothing of {request} can be exported")

    def bring(self, request: str, kv: Any) -> None:
        raise AssertionError(f"{kv} comes for {request}")

    def watch(self, lost: Callable[[Exception], None]) -> None:
        self.lost = lost

    def take_news(self) -> tuple[KvNews, ...]:
        return ()

    def step(self) -> tuple[Made, ...]:
        self.gate.wait()
        if self.error is not None:
            raise self.error
        made = []
        for id_, (ask, count) in list(self.asks.items()):
            token = len(ask.tokens) + count
            reason = FinishReason.STOP if token in ask.stop_ids else None
            if reason is None and count + 1 == ask.max_new_tokens:
                reason = FinishReason.LENGTH
            self.asks[id_] = (ask, count + 1)
            if reason is not None:
                del self.asks[id_]
            made.append(Made(id_, (token,), (), reason, cached_tokens=16))
        return tuple(made)


@dataclass
class Keeping(Counting):
    """Takes either leg of a request. Its KV cache is the tokens themselves, so that it sees what comes; `room` holds up
    what is to be reserved."""

    kv: KvFacts | str = KV
    kept: dict[str, Ask] = field(default_factory=dict)
    waiting: dict[str, Ask] = field(default_factory=dict)
    reserved: dict[str, Ask] = field(default_factory=dict)
    room: threading.Event = field(default_factory=threading.Event)

    @property
    def load(self) -> EngineLoad:
        held = len(self.asks) + len(self.kept) + len(self.reserved)
        return EngineLoad(held, BLOCKS, BLOCKS - held)

    def add(self, ask: Ask) -> None:
        if ask.leg is Leg.DECODE:
            self.waiting[ask.id] = ask
        else:
            super().add(ask)

    def abort(self, request: str) -> None:
        super().abort(request)
        for held in (self.kept, self.waiting, self.reserved):
            held.pop(request, None)

    def export(self, request: str) -> HostKv | None:
        ask = self.kept.get(request)
        return None if ask is None else HostKv(kv_of(ask.tokens))

    def bring(self, request: str, kv: HostKv) -> None:
        ask = self.reserved.pop(request, None)
        if ask is not None:
            expected = kv_of(ask.tokens[:-1])
            assert torch.equal(kv.tensor[:, ::2], expected[:, ::2])
            assert torch.equal(kv.tensor[:, 1, -4:], expected[:, 1, -4:]), "what its window still sees"
            self.asks[request] = (ask, 0)

    def step(self) -> tuple[Made, ...]:
        made = super().step()
        for one in made:
            ask = self.begun.get(one.id)
            if ask is not None and ask.leg is Leg.PREFILL and one.reason is FinishReason.LENGTH:
                self.kept[one.id] = ask
        return made

    def take_news(self) -> tuple[KvNews, ...]:
        if not self.room.is_set():
            return ()
        self.reserved |= self.waiting
        news = tuple(Reserved(request, is_here=False) for request in self.waiting)
        self.waiting.clear()
        return news


def kv_of(tokens: tuple[int, ...]) -> torch.Tensor:
    """(2, layers, tokens, KV heads, head_dim): which token it is, and where it lies."""
    shape = (2, len(KV.windows), len(tokens), KV.kv_heads, KV.head_dim)
    places = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape) / 1024
    return places + torch.tensor(tokens, dtype=torch.float32)[None, None, :, None, None]
