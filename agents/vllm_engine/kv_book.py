"""Whose KV blocks a vLLM engine keeps for a hand-off, and whose wait for what comes: the part of the connector that
decides, without vLLM.

Theory of operation: vLLM asks its connector about each request, by a name of its own (`inner`), and frees the blocks of
one that has ended, or lets one go on whose KV cache has come, once a step of the connector's worker side has said so.
A prefill leg that ends by its length stays (`KEPT`) until it is released. A decode leg is `ASKED` until vLLM has given
it blocks (`RESERVED`); what was brought is written into them in the next step, and forgotten here: should vLLM preempt
the request later, it is computed as any other.

Of a layer with a window only what it still sees comes, so that the first block of it may be half written. vLLM believes
all of a block that it has in its prefix cache: such a block must be taken out of there once it is in use.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from agents.messages.to_scheduler import Leg
from agents.vllm_engine.exchange import HostKv, KvNews, Reserved, first_kept_token

Blocks = tuple[list[int], ...]
"""Of each group of layers: a request's blocks, in order."""


class _Phase(Enum):
    COMPUTING = auto()
    KEPT = auto()
    ASKED = auto()
    RESERVED = auto()


@dataclass(slots=True)
class _Entry:
    name: str
    inner: str
    tokens: int
    """In the KV cache that is handed over."""
    phase: _Phase
    blocks: Blocks = ()
    first: int = 0
    """The first token that is not in the engine's prefix cache already."""


@dataclass(frozen=True, slots=True)
class Load:
    """KV cache to be written into blocks."""

    inner: str
    blocks: Blocks
    first: int
    kv: HostKv


@dataclass(frozen=True, slots=True)
class StepOrders:
    """What the worker side does in a step, and says afterwards. Names are vLLM's."""

    loads: tuple[Load, ...] = ()
    received: frozenset[str] = frozenset()
    """Wait no more: their KV cache is loaded, or they were aborted."""
    sent: frozenset[str] = frozenset()
    """Keep their blocks no more."""


@dataclass(slots=True)
class KvBook:
    """One engine's, on its thread."""

    block_tokens: int
    windows: tuple[int, ...]
    """Of each group of layers, in tokens; 0: it keeps all of them."""
    _by_name: dict[str, _Entry] = field(default_factory=dict)
    _by_inner: dict[str, _Entry] = field(default_factory=dict)
    _loads: list[Load] = field(default_factory=list)
    _received: set[str] = field(default_factory=set)
    _sent: set[str] = field(default_factory=set)
    _news: list[KvNews] = field(default_factory=list)
    _half_written: dict[str, frozenset[int]] = field(default_factory=dict)
    """Blocks of requests that were loaded, by vLLM's name."""

    @property
    def is_due(self) -> bool:
        """Tell whether the next step has something to do for a hand-off."""
        return bool(self._loads or self._received or self._sent)

    @property
    def holding(self) -> int:
        """Count requests that hold blocks and take no part in steps."""
        return sum(entry.phase in (_Phase.KEPT, _Phase.RESERVED) for entry in self._by_name.values())

    def begin(self, name: str, inner: str, leg: Leg, tokens: int) -> None:
        """Take note of a new request. `tokens`: it begins with."""
        if leg is Leg.PREFILL:
            entry = _Entry(name, inner, tokens, _Phase.COMPUTING)
        else:
            entry = _Entry(name, inner, tokens - 1, _Phase.ASKED)
        self._by_name[name] = self._by_inner[inner] = entry

    def coming(self, inner: str, local: int) -> int:
        """Count the tokens that come from elsewhere, behind `local` ones in the engine's prefix cache."""
        entry = self._by_inner.get(inner)
        return max(0, entry.tokens - local) if entry is not None and entry.phase is _Phase.ASKED else 0

    def allocated(self, inner: str, blocks: Blocks, coming: int) -> None:
        """vLLM has given a request blocks, of which `coming` tokens wait for their KV cache."""
        entry = self._by_inner.get(inner)
        if entry is None or entry.phase is not _Phase.ASKED:
            return
        if coming:
            entry.phase, entry.blocks, entry.first = _Phase.RESERVED, blocks, entry.tokens - coming
        else:
            self._forget(entry)
        self._news.append(Reserved(entry.name, is_here=not coming))

    def finished(self, inner: str, blocks: Blocks, by_length: bool) -> bool:
        """Tell whether the blocks of a request that has ended are to stay."""
        entry = self._by_inner.get(inner)
        if entry is None:
            return False
        if entry.phase is _Phase.COMPUTING and by_length:
            entry.phase, entry.blocks = _Phase.KEPT, blocks
            return True
        if entry.phase is _Phase.RESERVED:  # vLLM waits for our word: something might be writing into its blocks
            self._received.add(inner)
            self._loads = [load for load in self._loads if load.inner != inner]
        self._forget(entry)
        return False

    def kept(self, name: str) -> tuple[Blocks, int] | None:
        """Return the blocks of a request that keeps them, and the tokens in them."""
        entry = self._by_name.get(name)
        return (entry.blocks, entry.tokens) if entry is not None and entry.phase is _Phase.KEPT else None

    def bring(self, name: str, kv: HostKv) -> None:
        """Have KV cache that has come written in the next step; nothing where the request has gone."""
        entry = self._by_name.get(name)
        if entry is not None and entry.phase is _Phase.RESERVED:
            self._loads.append(Load(entry.inner, entry.blocks, entry.first, kv))

    def release(self, name: str) -> None:
        """Keep the blocks of a request no more; nothing where it keeps none."""
        entry = self._by_name.get(name)
        if entry is not None and entry.phase is _Phase.KEPT:
            self._sent.add(entry.inner)
            self._forget(entry)

    def take_orders(self) -> StepOrders:
        loads = tuple(self._loads)
        received = self._received | {load.inner for load in loads}
        orders = StepOrders(loads, frozenset(received), frozenset(self._sent))
        for load in loads:
            entry = self._by_inner[load.inner]
            self._half_written[load.inner] = frozenset(self._half_written_of(entry))
            self._forget(entry)
        self._loads, self._received, self._sent = [], set(), set()
        return orders

    def take_news(self) -> tuple[KvNews, ...]:
        news, self._news = tuple(self._news), []
        return news

    def take_half_written(self, inner: str) -> frozenset[int]:
        """Take the blocks of a request that are not to be found in vLLM's prefix cache."""
        return self._half_written.pop(inner, frozenset())

    def _half_written_of(self, entry: _Entry) -> Iterator[int]:
        for blocks, window in zip(entry.blocks, self.windows, strict=True):
            block, missing = divmod(first_kept_token(window, entry.tokens), self.block_tokens)
            if missing and block * self.block_tokens >= entry.first:
                yield blocks[block]

    def _forget(self, entry: _Entry) -> None:
        del self._by_name[entry.name], self._by_inner[entry.inner]
