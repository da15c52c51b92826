"""The scheduler of an instance that is one vLLM engine: gateways on one side, the engine's thread on the other.

vLLM decides who computes what next; what is decided here is who is taken, and who is told what.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping

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
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.request_check import output_limit, unfit
from agents.scheduler.settings import SchedulerSettings
from agents.vllm_engine.engine_thread import Engine, EngineThread
from agents.vllm_engine.exchange import EngineLoad, Made
from agents.vllm_engine.held_request import HeldRequest

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
    ) -> None:
        """`gateways`: public key → name. `layout`: one stage of one node. `load`: called on the engine's thread.
        `pace`: share of the time that it may compute, above 0.

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
        self._gateways = Gateways(bind, keys, gateways, self, self._settings.channel)
        self.endpoint = self._gateways.endpoint
        self._engine = EngineThread(load, self, pace)

    @property
    def status(self) -> Status:
        node, load, held = self._layout.stages[0][0], self._load, len(self._held)
        state = SchedulerState.LOADING if load is None else SchedulerState.READY
        if self._is_draining:
            state = SchedulerState.DRAINING
        running, blocks, free = 0, node.kv_blocks, node.kv_blocks
        if load is not None:
            running, blocks, free = min(load.running, held), load.kv_blocks, load.kv_blocks_free
        room = max(0, self._settings.max_waiting - (held - running))
        places = node.batch_cap - held if held == running else 0
        return Status(state, running, held - running, blocks, free, room=room, places=max(0, places))

    @property
    def done(self) -> WorkDone:
        return WorkDone(self._prompt_tokens)

    async def stop(self) -> None:
        """Give gateways a moment to read what was sent last."""
        await asyncio.sleep(self._settings.channel.linger_s)
        self._gateways.close()

    def submit(self, gateway: Peer, request: Generate) -> None:
        limit = output_limit(request, self._layout)
        refusal = next(self._refusals(gateway, request, limit), None)
        if refusal is not None:
            self._gateways.send(gateway, Failed(request.attempt, *refusal))
            return
        if len(request.generated) >= limit:
            self._gateways.send(gateway, Finished(request.attempt, FinishReason.LENGTH, len(request.generated)))
            return
        self._count += 1
        self._prompt_tokens += len(request.prompt) + len(request.generated)
        expires_s = self._loop.time() + request.deadline_s
        held = HeldRequest(f"{self._count}", gateway, request, limit, expires_s)
        self._held[gateway, request.attempt] = self._ids[held.id] = held
        self._engine.tell(held.ask)

    def cancel(self, gateway: Peer, attempt: int) -> None:
        held = self._held.get((gateway, attempt))
        if held is not None:
            self._abort(held)

    def drain(self) -> None:
        self._is_draining = True

    def leave(self, gateway: Peer) -> None:
        for held in [held for held in self._held.values() if held.gateway == gateway]:
            self._abort(held)

    def beat(self) -> None:
        now = self._loop.time()
        for held in [held for held in self._held.values() if held.expires_s <= now]:
            self._abort(held)
            self._fail(held, Failure.DEADLINE, "the request took longer than it may")
        if self._engine.step_age_s > STEP_TIMEOUT_S:
            self.broke(TimeoutError(f"a step of vLLM takes longer than {STEP_TIMEOUT_S:g} s"))

    def loaded(self, load: EngineLoad) -> None:
        self._load = load
        self._gateways.tell_status()

    def stepped(self, made: tuple[Made, ...], load: EngineLoad) -> None:
        """Send each gateway its tokens in one message, then what has ended."""
        self._load = load
        known = [(held, one) for one in made if (held := self._ids.get(one.id)) is not None]
        self._tell_tokens((held, run) for held, one in known if (run := held.take(one)) is not None)
        for held, one in known:
            if one.refusal:
                self._forget(held)
                self._fail(held, Failure.UNSUPPORTED, one.refusal)
            elif one.reason is not None:
                self._forget(held)
                self._gateways.send(held.gateway, held.finished(one.reason))
        if self._is_draining and not self._held:
            self._gateways.tell_status()
        self._gateways.tell_room()

    def broke(self, error: BaseException) -> None:
        if self.failure:
            return
        self.failure = f"{type(error).__name__}: {error}"[:1000]
        self.is_out_of_memory = isinstance(error, OutOfMemoryError | MemoryError)
        for held in list(self._held.values()):
            self._forget(held)
            self._fail(held, Failure.ENGINE, self.failure)
        self.over.set()

    def _refusals(self, gateway: Peer, request: Generate, limit: int) -> Iterator[tuple[Failure, str]]:
        """Yield why the request is not taken; the first reason is the one to give."""
        layout, (node,) = self._layout, self._layout.stages[0]
        if self.failure:
            yield Failure.ENGINE, self.failure
        if self._is_draining:
            yield Failure.DRAINING, "takes no new request"
        yield from unfit(request, layout)
        if request.leg is not Leg.WHOLE:
            yield Failure.HAND_OFF, "vLLM serves whole requests, and hands no KV cache over"
        if (gateway, request.attempt) in self._held:
            yield Failure.UNSUPPORTED, "the attempt is under way already"
        if layout.blocks(len(request.prompt) + limit) > node.kv_blocks:
            yield Failure.TOO_LONG, f"prompt and output need more than the {node.kv_blocks} KV blocks there are"
        if not self.status.room:
            yield Failure.OVERLOADED, f"{self.status.waiting} requests wait"

    def _tell_tokens(self, runs: Iterable[tuple[HeldRequest, TokenRun]]) -> None:
        of_gateway: dict[Peer, list[TokenRun]] = {}
        for held, run in runs:
            of_gateway.setdefault(held.gateway, []).append(run)
        for gateway, its_runs in of_gateway.items():
            self._gateways.send(gateway, Tokens(tuple(its_runs)))

    def _abort(self, held: HeldRequest) -> None:
        self._forget(held)
        self._engine.tell(held.id)

    def _forget(self, held: HeldRequest) -> None:
        del self._ids[held.id]
        del self._held[held.gateway, held.request.attempt]

    def _fail(self, held: HeldRequest, failure: Failure, reason: str) -> None:
        self._gateways.send(held.gateway, Failed(held.request.attempt, failure, reason[:1000]))
