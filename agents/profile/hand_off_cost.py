"""Measures what KV caches cost a node beside its steps: processor time of the threads of links while the engine works.

Alone, and out of memory that lies in one piece, a byte costs a sixth of that: by the time that a cache is sent, the
engine's next layers have taken its place in the processor's caches, and it lies in blocks, of which Python tells the
system one by one.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.guarded_engine import GuardedEngine
from agents.engines.kv_part import KvPart
from agents.engines.sampling import GREEDY
from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader, cut, token_bytes
from agents.hand_off.kv_inbox import KvInbox
from agents.hand_off.kv_receiver import KvReceiver
from agents.hand_off.kv_sender import KvSender
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink, SendKv
from agents.profile.measure import rows_for, step_of
from agents.profile.points import Point
from agents.transfer.errors import LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import Rendezvous, accept, connect
from templates_lib.cost.hand_off_cost import HandOffCost

_TOKENS = 128
"""Of a prompt whose cache is sent, and of those that are decoded meanwhile."""
_DECODING = 4
_MEASURE_S = 2.5
"""For each direction, and for _LEAST_PROMPTS of them at least, behind one that warms up."""
_LEAST_PROMPTS = 6
_LEAST_CPU_S = 1e-12
"""A byte costs something, where clocks of processor time are coarse too."""
_LINK = "profile"
_NAME = f"kv {_LINK} 0"
"""What its ends meet as, the first time."""
_LINKS = HandOffSettings(stall_s=60.0)


def beside(max_context_tokens: int) -> Point:
    """What an engine has room for, so that the cost can be measured on it. `max_context_tokens`: 0: unlimited."""
    tokens = min(_TOKENS, max_context_tokens or _TOKENS)
    return Point(1, tokens, 0, _DECODING, tokens - 1)


def measure_hand_off_cost(engine: GuardedEngine) -> HandOffCost:
    """`engine`: of any range of layers, with room for `beside`. Raises LinkLostError."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # then what this thread and the peer's do not take is the link's
    try:
        point = beside(engine.facts.max_context_tokens)
        return HandOffCost(_sending(engine, point.prompt_tokens), _taking(engine, point))
    finally:
        torch.set_num_threads(threads)


class _Peer:
    """The other end of the link, which stands for another node: a thread of its own, whose time does not count."""

    def __init__(self, serve: Callable[["_Peer", LinkEnd], None], meet: Callable[[tuple[str, int]], LinkEnd]) -> None:
        self.done: SimpleQueue[int] = SimpleQueue()
        """Prompts whose KV cache is there, each put by whoever takes it in."""
        self.asked: SimpleQueue[int | None] = SimpleQueue()
        """Prompts whose KV cache is to be sent; None: there are no more."""
        self.cpu_s = 0.0
        """As the thread says of itself behind each piece."""
        self._rendezvous = Rendezvous(_LINKS.interface)
        self._thread = threading.Thread(target=self._run, args=(serve, meet), daemon=True)
        self._thread.start()

    def order(self, engine: GuardedEngine, *, sends: bool) -> OpenKvLink:
        return OpenKvLink(_LINK, 0, sends, *self._rendezvous.address, str(engine.facts.dtype))

    @property
    def lives(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait for one more prompt's cache. Raises LinkLostError."""
        try:
            self.done.get(timeout=_LINKS.stall_s)
        except Empty:
            raise LinkLostError(f"no KV cache came within {_LINKS.stall_s:g} s") from None

    def close(self) -> None:
        self.asked.put(None)
        self._thread.join()
        self._rendezvous.close()

    def link_cpu_s(self) -> float:
        """Processor seconds of this process but for the calling thread and the peer."""
        return time.process_time() - time.thread_time() - self.cpu_s

    def _run(self, serve: Callable[["_Peer", LinkEnd], None], meet: Callable[[tuple[str, int]], LinkEnd]) -> None:
        with suppress(LinkLostError):  # the engine's end hangs up when it has measured
            end = meet(self._rendezvous.address)
            with closing(end):
                serve(self, end)


def _sending(engine: GuardedEngine, tokens: int) -> float:
    """Processor seconds a byte of a cache that is sent while the engine computes its prompt, and then the next."""
    facts = engine.facts
    size = sum(part.kv_bytes(facts.head_dim, facts.dtype) for part in _parts(engine, tokens))

    def take(peer: _Peer, end: LinkEnd) -> None:
        scratch, came = memoryview(bytearray(_LINKS.chunk_bytes)), 0
        while True:
            header = ChunkHeader.receive(end)
            piece = header.part.kv_bytes(facts.head_dim, facts.dtype)
            end.receive_piece(piece, lambda piece=piece: nullcontext([scratch[:piece]]))  # type: ignore[misc]
            came += piece
            if header.wants_answer:
                end.send(ACKNOWLEDGEMENT.pack(header.run, header.index, True))
            peer.cpu_s = time.thread_time()
            if came == size:
                came = 0
                peer.done.put(header.run)

    peer = _Peer(take, lambda at: accept(_NAME, at, _LINKS.interface, _LINKS.stall_s))
    sender = KvSender(_LINK, engine, _LINKS, lambda _: None)
    held = facts.held
    rows = rows_for(engine, tokens)

    def prompt(run: int) -> None:
        sender.send(SendKv(_LINK, run, run, tokens, held.first_layer, held.layers))
        engine.step(StepBatch((StepRequest(str(run), 0, tokens, GREEDY if held.last else None),)), rows)
        peer.wait()
        engine.free(str(run))

    with closing(peer), closing(sender):
        sender.open(peer.order(engine, sends=True))
        return _cpu_s_per_byte(peer, prompt, size)


def _taking(engine: GuardedEngine, point: Point) -> float:
    """Processor seconds a byte of a cache that comes while the engine decodes others."""
    facts, parts = engine.facts, tuple(_parts(engine, point.prompt_tokens))
    size = sum(part.kv_bytes(facts.head_dim, facts.dtype) for part in parts)

    def give(peer: _Peer, end: LinkEnd) -> None:
        cache = memoryview(bytearray(_LINKS.chunk_bytes))
        while (run := peer.asked.get()) is not None:
            for index, part in enumerate(parts):
                piece = part.kv_bytes(facts.head_dim, facts.dtype)
                header = ChunkHeader(run, index, index + 1 == len(parts), part)
                end.send_piece(header.packed(), piece, lambda piece=piece: nullcontext([cache[:piece]]))  # type: ignore[misc]
                peer.cpu_s = time.thread_time()
            end.receive(ACKNOWLEDGEMENT.size)

    peer = _Peer(give, lambda at: connect(_NAME, at, _LINKS.stall_s))
    inbox = KvInbox(engine, lambda run, _: peer.done.put(run))
    receiver = KvReceiver(_LINK, engine, inbox, _LINKS)
    decode = step_of(engine, replace(point, prompts=0))

    def prompt(run: int) -> None:
        inbox.reserve(run, point.prompt_tokens)
        peer.asked.put(run)
        while peer.done.empty() and peer.lives:
            decode()
        peer.wait()
        engine.free(str(run))

    with closing(peer), closing(receiver):
        receiver.open(peer.order(engine, sends=False))
        return _cpu_s_per_byte(peer, prompt, size)


def _cpu_s_per_byte(peer: _Peer, prompt: Callable[[int], None], size: int) -> float:
    """`prompt`: has the cache of one more prompt moved, of `size` bytes."""
    prompt(0)
    began_cpu_s, began_s, prompts = peer.link_cpu_s(), time.monotonic(), 0
    while prompts < _LEAST_PROMPTS or time.monotonic() < began_s + _MEASURE_S:
        prompts += 1
        prompt(prompts)
    return max(_LEAST_CPU_S, (peer.link_cpu_s() - began_cpu_s) / (prompts * size))


def _parts(engine: GuardedEngine, tokens: int) -> Iterator[KvPart]:
    """Cut the cache of a prompt of so many tokens as a step sends it: layers together until they are worth a piece."""
    held = engine.facts.held
    together = -(-_LINKS.least_bytes // (tokens * token_bytes(engine)))
    for layer in range(held.first_layer, held.end, together):
        yield from cut(engine, tokens, layer, min(together, held.end - layer), _LINKS.chunk_bytes)
