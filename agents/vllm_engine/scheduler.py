"""The scheduler of an instance that is one vLLM engine: gateways on one side, the engine's thread on the other.

vLLM decides who computes what next; what is decided here is who is taken, and who is told what.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.channels.peer import Peer
from agents.engines.errors import OutOfMemoryError
from agents.gateways import Gateways
from agents.messages.to_gateway import (
    Failed,
    Failure,
    Finished,
    FinishReason,
    SchedulerState,
    Status,
    TokenRun,
    Tokens,
    WorkDone,
)
from agents.messages.to_scheduler import Generate, Leg
from agents.scheduler.given import unfit_rows
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.request_check import output_limit, unfit
from agents.scheduler.settings import SchedulerSettings
from agents.vllm_engine.engine_thread import Engine, EngineThread
from agents.vllm_engine.exchange import EngineLoad, KvFacts, KvNews, Made, Told
from agents.vllm_engine.held_request import HeldRequest
from agents.vllm_engine.legs import Legs, MakeCarrier

STEP_TIMEOUT_S = 60.0
"""Longer than the longest step; an engine that takes longer counts as hung."""


class VllmScheduler:
    """Make it on a running loop. Requests that come while the engine loads wait until it is ready.

    Once the engine is lost, every request is failed with `engine` and `over` is set: the process should end."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        gateways: Mapping[str, str],
        layout: PipelineLayout,
        load: Callable[[], Engine],
        settings: SchedulerSettings | None = None,
        pace: float = 1.0,
        interface: str = "127.0.0.1",
        make_carrier: MakeCarrier | None = None,
    ) -> None:
        """`gateways`: public key → name. `layout`: one stage of one node. `load`: called on the engine's thread.
        `pace`: share of the time that it may compute, above 0. `interface`: this node's address on the private network.
        `make_carrier`: makes what carries KV caches to and from other instances; None: it serves whole requests.

        Raises OSError when the address is taken, ValueError for a layout of several nodes or a bad pace."""
        if [len(stage) for stage in layout.stages] != [1]:
            raise ValueError("vLLM serves whole models: one stage of one node")
        if not 0 < pace <= 1:
            raise ValueError(f"an engine's share of the time is above 0 and at most 1, not {pace}")
        self._layout = layout
        self._settings = settings or SchedulerSettings()
        self._is_draining = False
        self._load: EngineLoad | None = None
        self._held: dict[tuple[Peer, int], HeldRequest] = {}
        self._ids: dict[str, HeldRequest] = {}
        self._count = self._prompt_tokens = 0
        self.over = asyncio.Event()
        self.failure = ""
        self.is_out_of_memory = False
        """With fewer KV blocks, or elsewhere, it may work."""
        self._loop = asyncio.get_running_loop()
        self._legs: Legs | None = None
        if make_carrier is not None:
            self._legs = Legs(interface, keys, layout.vocab_size, make_carrier, self, self._settings)
        try:
            self._gateways = Gateways(bind, keys, gateways, self, self._settings.channel)
        except OSError:
            if self._legs is not None:
                self._legs.close()
            raise
        self.endpoint = self._gateways.endpoint
        self._engine = EngineThread(load, self, pace)

    @property
    def status(self) -> Status:
        node, load, legs = self._layout.stages[0][0], self._load, self._legs
        held, endpoint = len(self._held), legs.endpoint if legs else None
        state = SchedulerState.LOADING if load is None else SchedulerState.READY
        if self._is_draining:
            state = SchedulerState.DRAINING
        running, blocks, free = 0, node.kv_blocks, node.kv_blocks
        if load is not None:
            running, blocks, free = min(load.running, held), load.kv_blocks, load.kv_blocks_free
        waiting = held - running
        room = max(0, self._settings.max_waiting - waiting)
        expected, kept = (legs.expected, legs.held) if legs else (0, 0)
        places = node.batch_cap - (running - kept) if waiting == expected else 0
        return Status(
            state,
            running,
            waiting,
            blocks,
            free,
            hand_off=endpoint,
            room=room,
            places=max(0, places),
            obeys_rules=True,
            obeys_grammars=load is not None and load.obeys_grammars,
            # vLLM's blocks may be larger than the layout's, and as many fewer.
            prompt_tokens_free=free * node.kv_blocks * self._layout.block_tokens // max(blocks, 1),
        )

    @property
    def done(self) -> WorkDone:
        legs = self._legs
        moved = (legs.sent_kv_bytes, legs.received_kv_bytes) if legs else (0, 0)
        return WorkDone(self._prompt_tokens, 0, *moved)

    async def stop(self) -> None:
        """Give gateways a moment to read what was sent last."""
        await asyncio.sleep(self._settings.channel.linger_s)
        self._gateways.close()
        if self._legs is not None:
            self._legs.close()

    def submit(self, gateway: Peer, request: Generate) -> None:
        limit = output_limit(request, self._layout)
        refusal = next(self._refusals(gateway, request, limit), None)
        if refusal is not None:
            self._gateways.send(gateway, Failed(request.attempt, *refusal))
            return
        if len(request.generated) >= limit:
            self._gateways.send(gateway, Finished(request.attempt, FinishReason.LENGTH, len(request.generated)))
            return
        legs = self._legs if request.leg is not Leg.WHOLE else None
        if legs is not None:
            try:
                legs.meet(request)
            except (BadKeyError, ValueError) as error:
                self._gateways.send(gateway, Failed(request.attempt, Failure.HAND_OFF, str(error)[:1000]))
                return
        self._count += 1
        if request.leg is not Leg.DECODE:
            self._prompt_tokens += len(request.prompt) + len(request.generated)
        expires_s = self._loop.time() + request.deadline_s
        held = HeldRequest(f"{self._count}", gateway, request, limit, expires_s)
        self._held[gateway, request.attempt] = self._ids[held.id] = held
        if legs is not None:
            legs.begin(held)
        else:
            self._engine.tell(held.ask)

    def cancel(self, gateway: Peer, attempt: int) -> None:
        held = self._held.get((gateway, attempt))
        if held is not None:
            self._abort(held, "cancelled")

    def drain(self) -> None:
        self._is_draining = True

    def leave(self, gateway: Peer) -> None:
        for held in [held for held in self._held.values() if held.gateway == gateway]:
            self._abort(held, "its gateway is gone")

    def beat(self) -> None:
        now = self._loop.time()
        for held in [held for held in self._held.values() if held.expires_s <= now]:
            self.fail(held, Failure.DEADLINE, "the request took longer than it may")
        if self._legs is not None:
            self._legs.beat()
        if self._engine.step_age_s > STEP_TIMEOUT_S:
            self.broke(TimeoutError(f"a step of vLLM takes longer than {STEP_TIMEOUT_S:g} s"))

    def loaded(self, load: EngineLoad, kv: KvFacts | str) -> None:
        self._load = load
        if self._legs is not None:
            self._legs.loaded(kv)
        self._gateways.tell_status()

    def stepped(self, made: tuple[Made, ...], load: EngineLoad) -> None:
        """Send each gateway its tokens in one message, then what has ended."""
        self._load = load
        known = [(held, one) for one in made if (held := self._ids.get(one.id)) is not None]
        self._tell_tokens((held, run) for held, one in known if (run := held.take(one)) is not None)
        for held, one in known:
            if one.refusal:
                self._forget(held, one.refusal)
                self._tell_failure(held, Failure.UNSUPPORTED, one.refusal)
            elif self._legs is not None and held.is_kept(one):
                self._legs.computed(held, one.ids[-1])
            elif one.reason is not None:
                self._forget(held)
                self._gateways.send(held.gateway, held.finished(one.reason))
        if self._is_draining and not self._held:
            self._gateways.tell_status()
        self._gateways.tell_room()

    def moved(self, news: tuple[KvNews, ...]) -> None:
        if self._legs is not None:
            for one in news:
                self._legs.moved(one)

    def tell_engine(self, told: Told) -> None:
        self._engine.tell(told)

    def fail(self, held: HeldRequest, failure: Failure, reason: str) -> None:
        self._abort(held, reason)
        self._tell_failure(held, failure, reason)

    def finish(self, held: HeldRequest, reason: FinishReason) -> None:
        self._abort(held, "")
        self._gateways.send(held.gateway, held.finished(reason))

    def broke(self, error: BaseException) -> None:
        if self.failure:
            return
        self.failure = f"{type(error).__name__}: {error}"[:1000]
        self.is_out_of_memory = isinstance(error, OutOfMemoryError | MemoryError)
        for held in list(self._held.values()):
            self._forget(held, self.failure)
            self._tell_failure(held, Failure.ENGINE, self.failure)
        self.over.set()

    def _refusals(self, gateway: Peer, request: Generate, limit: int) -> Iterator[tuple[Failure, str]]:
        """Yield why the request is not taken; the first reason is the one to give."""
        layout, (node,) = self._layout, self._layout.stages[0]
        if self.failure:
            yield Failure.ENGINE, self.failure
        if self._is_draining:
            yield Failure.DRAINING, "takes no new request"
        yield from unfit(request, layout)
        yield from unfit_rows(request, None)
        rules = request.sampling.rules
        if rules is not None and rules.grammar and self._load is not None and not self._load.obeys_grammars:
            yield Failure.UNSUPPORTED, "there is no tokenizer.json beside the weights here, or no llguidance"
        if request.pooling is not None:
            yield Failure.UNSUPPORTED, "vLLM hands out no hidden states here: there are no embeddings"
        if request.leg is not Leg.WHOLE and self._legs is None:
            yield Failure.HAND_OFF, "serves whole requests, and hands no KV cache over"
        if (request.peer is None) is not (request.leg is Leg.WHOLE):
            yield Failure.HAND_OFF, "a request of two legs has two instances, and a whole one has one"
        if self._legs is not None:
            yield from self._legs.refusals(request)
        if (gateway, request.attempt) in self._held:
            yield Failure.UNSUPPORTED, "the attempt is under way already"
        output = len(request.generated) if request.leg is Leg.PREFILL else limit
        if layout.blocks(len(request.prompt) + output) > node.kv_blocks:
            yield Failure.TOO_LONG, f"prompt and output need more than the {node.kv_blocks} KV blocks there are"
        if not self.status.room:
            yield Failure.OVERLOADED, f"{self.status.waiting} requests wait"

    def _tell_tokens(self, runs: Iterable[tuple[HeldRequest, TokenRun]]) -> None:
        of_gateway: dict[Peer, list[TokenRun]] = {}
        for held, run in runs:
            of_gateway.setdefault(held.gateway, []).append(run)
        for gateway, its_runs in of_gateway.items():
            self._gateways.send(gateway, Tokens(tuple(its_runs)))

    def _abort(self, held: HeldRequest, reason: str) -> None:
        self._forget(held, reason)
        self._engine.tell(held.id)

    def _forget(self, held: HeldRequest, reason: str = "") -> None:
        """Forget a request. `reason`: for its other leg, where there is one that waits."""
        del self._ids[held.id]
        del self._held[held.gateway, held.request.attempt]
        if self._legs is not None:
            self._legs.end(held, reason)

    def _tell_failure(self, held: HeldRequest, failure: Failure, reason: str) -> None:
        self._gateways.send(held.gateway, Failed(held.request.attempt, failure, reason[:1000]))
