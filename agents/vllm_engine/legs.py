"""Requests of two legs at a vLLM instance: what the core of a pipeline's scheduler does about them (`hand_offs` says
how), where vLLM decides who computes when.

A prefill leg is offered once it is computed, and its KV cache leaves the engine when the other side has room. A decode
leg is asked of the engine once it is offered, which accepts when vLLM has given it blocks. What comes and goes is in
host memory meanwhile: links need not wait for steps, nor steps for links.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from agents.channels.keys import KeyPair
from agents.engines.errors import EngineError
from agents.messages.kv_shape import KvShape, StageLayers
from agents.messages.to_gateway import Failure, FinishReason
from agents.messages.to_kv_source import Accept, Decline, Taken
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Generate, Leg
from agents.messages.to_stage_scheduler import KvArrived, KvLinkBroken
from agents.scheduler.hand_off_desk import HandOffDesk
from agents.scheduler.hand_offs import HandOffs
from agents.scheduler.orders import Dispatch
from agents.scheduler.sequence import ActiveRun, Sequence, SequencePhase
from agents.scheduler.settings import SchedulerSettings
from agents.scheduler.workers import WorkerPlace
from agents.vllm_engine.exchange import Bring, Export, Exported, HostKv, KvFacts, KvNews, Reserved, Told
from agents.vllm_engine.held_request import HeldRequest


class Carrier(Protocol):
    """The worker's side: see `KvWorker`."""

    @property
    def rendezvous(self) -> tuple[str, int]: ...

    def obey(self, order: msgspec.Struct) -> None: ...

    def reserve(self, run: int, tokens: int) -> None: ...

    def put(self, run: int, kv: HostKv) -> None: ...

    def take(self, run: int) -> HostKv: ...

    def forget(self, run: int) -> None: ...

    def close(self) -> None: ...


MakeCarrier = Callable[[str, KvFacts, Callable[[msgspec.Struct], None]], Carrier]
"""Of this node's address on the private network, the engine's KV cache, and what is called on any thread with what is
to be reported."""


class LegsHost(Protocol):
    """The instance's scheduler."""

    def tell_engine(self, told: Told) -> None: ...

    def fail(self, held: HeldRequest, failure: Failure, reason: str) -> None:
        """End a request with all that it holds."""

    def finish(self, held: HeldRequest, reason: FinishReason) -> None:
        """End a request with all that it holds."""


class Legs:
    """Make it on a running loop; it listens until closed."""

    def __init__(
        self,
        interface: str,
        keys: KeyPair,
        vocab_size: int,
        make_carrier: MakeCarrier,
        host: LegsHost,
        settings: SchedulerSettings,
    ) -> None:
        """`interface`: this node's address on the private network. `make_carrier`: called once the engine is ready.

        Raises OSError when the interface is not of this machine."""
        self._interface = interface
        self._vocab_size = vocab_size
        self._make_carrier = make_carrier
        self._carrier: Carrier | None = None
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._desk = HandOffDesk(interface, keys, self._tell_carrier, self, settings)
        self._hand_offs = HandOffs()
        self._legs: dict[str, tuple[HeldRequest, Sequence]] = {}
        """By the request's id."""
        self._runs: dict[int, str] = {}
        """Id of the request that holds blocks for a hand-off, by what the run is called on links."""
        self._begun = 0
        self._accepted: dict[int, Accept] = {}
        """By our run: to be sent once it is out of the engine."""
        self._refusal = ""
        self.sent_kv_bytes = self.received_kv_bytes = 0

    @property
    def endpoint(self) -> str | None:
        """Return where other instances are met; None once the engine has said that it hands nothing over."""
        return None if self._refusal else self._desk.endpoint

    @property
    def held(self) -> int:
        """Count prefill legs that are computed, and stay until the other side has their KV cache."""
        return sum(sequence.phase is SequencePhase.HELD for _, sequence in self._legs.values())

    @property
    def expected(self) -> int:
        """Count decode legs of which the engine does not know yet."""
        return sum(sequence.phase is SequencePhase.EXPECTED for _, sequence in self._legs.values())

    def loaded(self, kv: KvFacts | str) -> None:
        """Begin, as the engine is ready. `kv`: how its KV cache lies, or why none is handed over."""
        if isinstance(kv, str):
            self._refusal = kv
            self._fail(list(self._legs.values()), kv)
            return
        carrier = self._carrier = self._make_carrier(self._interface, kv, self._report)
        shape = KvShape((StageLayers(0, len(kv.windows), 1),), kv.kv_heads, kv.head_dim, kv.dtype)
        self._desk.begin(shape, carrier.rendezvous)

    def close(self) -> None:
        self._desk.close()
        if self._carrier is not None:
            self._carrier.close()

    def beat(self) -> None:
        self._hand_offs.forget_late(self._loop.time())
        self._desk.part(lambda key: bool(self._hand_offs.of(key)))

    def refusals(self, request: Generate) -> Iterator[tuple[Failure, str]]:
        """Yield why a request's leg is not taken."""
        if self._refusal and request.leg is not Leg.WHOLE:
            yield Failure.HAND_OFF, self._refusal
        if request.peer is not None and self._hand_offs.knows(request.peer.hand_off):
            yield Failure.HAND_OFF, "the hand-off is under way already"

    def meet(self, request: Generate) -> None:
        """Make ready for the other leg. Raises ValueError or BadKeyError for an address that cannot be one."""
        self._desk.meet(request)

    def begin(self, held: HeldRequest) -> None:
        """Begin a leg: what is to be prefilled is asked of the engine at once."""
        request = held.request
        sequence = Sequence((held.gateway, request.attempt), request, int(held.id), held.expires_s, held.limit)
        self._legs[held.id] = held, sequence
        offer = self._hand_offs.begin(sequence)
        if request.leg is Leg.PREFILL:
            self._host.tell_engine(held.ask)
            return
        sequence.phase = SequencePhase.EXPECTED
        if offer is not None:
            self._take_offer(held, sequence, offer)
        self._speak()

    def computed(self, held: HeldRequest, token: int) -> None:
        """Offer the KV cache of a prefill leg, behind which `token` was sampled; the engine keeps it."""
        _, sequence = self._legs[held.id]
        sequence.tokens.append(token)
        self._hold(held, sequence, len(sequence.tokens) - 1)
        sequence.phase = SequencePhase.HELD
        self._hand_offs.offer(sequence)
        self._speak()

    def end(self, held: HeldRequest, reason: str) -> None:
        """End a leg here, and for the other one unless that knows; nothing for a request that has none."""
        leg = self._legs.pop(held.id, None)
        if leg is None:
            return
        _, sequence = leg
        self._hand_offs.end(sequence, reason[:1000])
        if sequence.admission is not None:
            self._drop(sequence.admission.run)
        self._speak()

    def moved(self, news: KvNews) -> None:
        """Take note of what the engine has done for a hand-off; nothing where its request has gone."""
        held, sequence = self._legs.get(news.id, (None, None))
        if held is None or sequence is None:
            return
        if isinstance(news, Exported):
            self._send(sequence, news)
        else:
            self._expect_kv(held, sequence, news)
        self._speak()

    def heard_target(self, key: str, message: Accept | Taken | Decline) -> None:
        sequence = self._hand_offs.find(key, message.hand_off, Leg.PREFILL)
        leg = self._leg_of(sequence)
        if leg is None or not leg[1].is_offered:
            self.sent_kv_bytes += self._hand_offs.taken_after_all(key, message)
            return  # over, and said so
        held, sequence = leg
        active = sequence.admission
        if active is None:
            return
        if isinstance(message, Decline):
            active.target_run = -1  # it goes nowhere: no word of it is to come
            self._fail([leg], f"the decode leg does not take it: {message.reason}")
        elif isinstance(message, Taken):
            self.sent_kv_bytes += message.moved_bytes
            sequence.is_offered = False
            self._host.finish(held, FinishReason.HANDED_OFF)
        elif active.target_run != message.run:  # else it was said twice
            active.target_run = message.run
            self._accepted[active.run] = message
            self._host.tell_engine(Export(held.id))

    def heard_source(self, key: str, message: Offer | Withdraw) -> None:
        leg = self._leg_of(self._hand_offs.find(key, message.hand_off, Leg.DECODE))
        if isinstance(message, Withdraw):
            self._hand_offs.forget_early(key, message.hand_off)
            if leg is None or leg[1].phase is SequencePhase.COMPUTED:
                return
            if not message.is_early or leg[1].phase is not SequencePhase.EXPECTED:
                self._fail([leg], "the prefill leg has nothing to hand off any more")
        elif leg is None:
            self._hand_offs.keep_early(key, message)
        elif leg[1].phase is SequencePhase.COMPUTED:
            self._hand_offs.taken(leg[1])
        else:
            self._take_offer(*leg, message)
        self._speak()

    def peer_back(self, key: str) -> None:
        self._hand_offs.offer_again(key)
        self._speak()

    def peer_lost(self, key: str, reason: str) -> None:
        """Give up what is between another instance, which is out of reach, and us: it cannot be handed off."""
        self._hand_offs.forget_early(key)
        waiting = [s for s in self._hand_offs.of(key) if s.is_pinned or s.phase is not SequencePhase.COMPUTED]
        self._fail([leg for s in waiting if (leg := self._leg_of(s)) is not None], reason)

    def hand_off_stuck(self, runs: set[int], reason: str) -> None:
        legs = [self._legs[self._runs[run]] for run in runs if run in self._runs]
        self._fail([leg for leg in legs if leg[1].is_offered], reason)

    def _take_offer(self, held: HeldRequest, sequence: Sequence, offer: Offer) -> None:
        """The KV cache of a request can come, behind which the token is known, or this was said before."""
        if sequence.phase is not SequencePhase.EXPECTED:
            self._hand_offs.accept(sequence)
            return
        if offer.token is None:
            return  # vLLM begins a request with all its tokens: it is offered again when that one is known
        sequence.phase = SequencePhase.OFFERED
        if offer.tokens != len(sequence.tokens) or offer.token >= self._vocab_size:
            told = f"{offer.tokens} tokens and token {offer.token} are offered"
            self._fail([(held, sequence)], f"{told}, of a prompt of {len(sequence.tokens)}")
            return
        sequence.tokens.append(offer.token)
        held.hand(offer.token)
        if held.output_tokens >= held.limit:
            sequence.phase = SequencePhase.COMPUTED
            self._hand_offs.taken(sequence)
            self._host.finish(held, FinishReason.LENGTH)
            return
        self._host.tell_engine(held.ask)

    def _expect_kv(self, held: HeldRequest, sequence: Sequence, news: Reserved) -> None:
        """vLLM has blocks for a decode leg: the other side may send."""
        if sequence.phase is not SequencePhase.OFFERED:
            return
        if news.is_here:
            sequence.phase = SequencePhase.COMPUTED
            self._hand_offs.taken(sequence)
            return
        tokens = len(sequence.tokens) - 1
        active, carrier = self._hold(held, sequence, tokens), self._ready
        sequence.phase = SequencePhase.COMING
        try:
            carrier.reserve(active.run, tokens)
        except EngineError as error:
            self._fail([(held, sequence)], str(error))
            return
        self._hand_offs.accept(sequence)

    def _send(self, sequence: Sequence, news: Exported) -> None:
        """The KV cache of a prefill leg is out of the engine: have it sent."""
        active, peer = sequence.admission, sequence.request.peer
        if active is None or peer is None or (accepted := self._accepted.pop(active.run, None)) is None:
            return
        self._ready.put(active.run, news.kv)
        self._desk.dispatch(Dispatch(active.run, (0,), active.prompt, peer, accepted.run, accepted.nodes))

    @property
    def _ready(self) -> Carrier:
        """Return the carrier: nothing leaves or comes before the engine is there."""
        if self._carrier is None:
            raise RuntimeError("KV cache is handed over before the engine is ready")
        return self._carrier

    def _tell_carrier(self, _worker: WorkerPlace, order: msgspec.Struct) -> None:
        self._ready.obey(order)

    def _report(self, word: msgspec.Struct) -> None:
        """Called on the links' threads."""
        self._loop.call_soon_threadsafe(self._reported, word)

    def _reported(self, word: msgspec.Struct) -> None:
        if isinstance(word, KvLinkBroken):
            self._desk.link_broke(word)
        elif isinstance(word, KvArrived):
            self._arrived(word)
        self._speak()

    def _arrived(self, word: KvArrived) -> None:
        """All of a decode leg's KV cache is in host memory."""
        held, sequence = self._legs.get(self._runs.get(word.run, ""), (None, None))
        if held is None or sequence is None or sequence.phase is not SequencePhase.COMING:
            return  # gone meanwhile
        if sequence.admission is not None:
            sequence.admission.moved_bytes = word.moved_bytes
        self.received_kv_bytes += word.moved_bytes
        sequence.phase = SequencePhase.COMPUTED
        self._host.tell_engine(Bring(held.id, self._ready.take(word.run)))
        self._hand_offs.taken(sequence)

    def _hold(self, held: HeldRequest, sequence: Sequence, tokens: int) -> ActiveRun:
        """Name the run of a request that holds blocks of `tokens` tokens: later ones have higher numbers."""
        self._begun += 1
        self._runs[self._begun] = held.id
        active = sequence.admission = ActiveRun(self._begun, 0, (0,), 0, tokens)
        return active

    def _drop(self, run: int) -> None:
        del self._runs[run]
        self._accepted.pop(run, None)
        self._desk.release(run)
        self._ready.forget(run)

    def _leg_of(self, sequence: Sequence | None) -> tuple[HeldRequest, Sequence] | None:
        if sequence is None:
            return None
        return self._legs.get(str(sequence.arrival))

    def _fail(self, legs: list[tuple[HeldRequest, Sequence]], reason: str) -> None:
        for held, _ in legs:
            self._host.fail(held, Failure.HAND_OFF, reason)

    def _speak(self) -> None:
        for word in self._hand_offs.take_words():
            self._desk.say(word)
