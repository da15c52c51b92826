"""A scheduler that echoes: the whole protocol, queueing and accounting of one, with no engine behind it."""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from agents.channels.keys import KeyPair
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.echo.given_rows import GivenRowsError, GivenRowsTaker
from agents.echo.sequence import EchoSequence
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
from agents.messages.to_scheduler import Generate


@dataclass(frozen=True, slots=True)
class EchoSettings:
    max_running: int = 512
    max_waiting: int = 2048
    """More are refused as `overloaded`."""
    step_s: float = 0.0
    """Pause between two steps; 0 is as fast as it goes."""
    tokens_per_step: int = 1
    kv_blocks: int = 1 << 20
    block_tokens: int = 16
    calls_kept: int = 1000


class EchoScheduler:
    """Make it on a running loop. `fail_next` answers that many coming requests with failures; `calls` are
    those that came."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        allowed: Mapping[str, str],
        settings: EchoSettings | None = None,
        channel: ChannelSettings | None = None,
        rows: GivenRowsTaker | None = None,
    ) -> None:
        """`rows`: takes those that come with requests; None: requests may come with none. Raises OSError when the
        address is taken."""
        self._rows = rows
        self._taking: dict[tuple[bytes, int], asyncio.Task[None]] = {}
        self.fail_next: deque[Failure] = deque()
        self._settings = settings or EchoSettings()
        self.calls: deque[Generate] = deque(maxlen=self._settings.calls_kept)
        self._state = SchedulerState.READY
        self._running: dict[tuple[bytes, int], EchoSequence] = {}
        self._waiting: dict[tuple[bytes, int], EchoSequence] = {}
        self._kv_blocks_free = self._settings.kv_blocks
        self._is_stepping = False
        self._loop = asyncio.get_running_loop()
        self._gateways = Gateways(bind, keys, allowed, self, channel or ChannelSettings())
        self.endpoint = self._gateways.endpoint

    @property
    def status(self) -> Status:
        return Status(
            self._state,
            len(self._running),
            self._held_back,
            self._settings.kv_blocks,
            self._kv_blocks_free,
            hand_off=self.endpoint,
            room=max(0, self._settings.max_waiting - self._held_back),
            places=0 if self._waiting else max(0, self._settings.max_running - len(self._running) - len(self._taking)),
            obeys_rules=True,  # it chooses nothing: the only token that it knows is the one that the prompt has next
            takes_rows=0 if self._rows is None else 1,
            prompt_tokens_free=self._kv_blocks_free * self._settings.block_tokens,
        )

    @property
    def done(self) -> WorkDone:
        return WorkDone()

    def close(self) -> None:
        self._gateways.close()
        self._running.clear()
        self._waiting.clear()
        for task in self._taking.values():
            task.cancel()
        if self._rows is not None:
            self._rows.close()

    def cancel(self, gateway: Peer, attempt: int) -> None:
        self._release((gateway.connection, attempt))

    def drain(self) -> None:
        self._state = SchedulerState.DRAINING

    def leave(self, gateway: Peer) -> None:
        for key in [key for key in (*self._running, *self._waiting, *self._taking) if key[0] == gateway.connection]:
            self._release(key)

    def beat(self) -> None:
        """An echo has no deadlines."""

    def submit(self, gateway: Peer, request: Generate) -> None:
        self.calls.append(request)
        sequence = EchoSequence(gateway, request, self._settings.block_tokens)
        if self.fail_next:
            self._refuse(sequence, self.fail_next.popleft(), "told to fail")
        elif self._state is SchedulerState.DRAINING:
            self._refuse(sequence, Failure.DRAINING, "takes no new request")
        elif request.given and self._rows is None:
            self._refuse(sequence, Failure.UNSUPPORTED, "takes no rows of other components")
        elif sequence.kv_blocks > self._settings.kv_blocks:
            self._refuse(sequence, Failure.TOO_LONG, f"needs {sequence.kv_blocks} KV blocks of {self.status.kv_blocks}")
        elif not self.status.room:
            self._refuse(sequence, Failure.OVERLOADED, f"{self._held_back} requests wait")
        elif not sequence.makes_tokens:
            # Legs after it do not wait for its result: at a later step it could have been cancelled, as if not needed.
            self._gateways.send(gateway, Finished(request.attempt, FinishReason.HANDED_OFF, sequence.output_tokens))
            self._wake()
        elif request.given and self._rows is not None:
            key = gateway.connection, request.attempt
            self._taking[key] = self._loop.create_task(self._begin(key, sequence, self._rows))
        else:
            self._waiting[gateway.connection, request.attempt] = sequence
            self._wake()

    async def _begin(self, key: tuple[bytes, int], sequence: EchoSequence, rows: GivenRowsTaker) -> None:
        """Let it wait for its turn once its rows are here."""
        try:
            await rows.take(sequence.request)
        except GivenRowsError as error:
            self._refuse(sequence, Failure.HAND_OFF, str(error))
        else:
            self._waiting[key] = sequence
        self._taking.pop(key, None)
        self._wake()  # also when it was refused: there is room again, and a drain may be at its end

    @property
    def _held_back(self) -> int:
        """Requests that wait for their turn, or for their rows."""
        return len(self._waiting) + len(self._taking)

    def _wake(self) -> None:
        if not self._is_stepping:
            self._is_stepping = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        """Admit what fits, advance everyone, send each gateway its tokens in one message."""
        self._admit()
        runs: dict[Peer, list[TokenRun]] = {}
        ended: list[tuple[tuple[bytes, int], Finished]] = []
        for key, sequence in self._running.items():
            run, reason = sequence.advance(self._settings.tokens_per_step)
            if run is not None:
                runs.setdefault(sequence.peer, []).append(run)
            if reason is not None:
                ended.append((key, Finished(sequence.request.attempt, reason, sequence.output_tokens)))
        for peer, made in runs.items():
            self._gateways.send(peer, Tokens(tuple(made)))
        for key, finished in ended:
            if key in self._running:
                self._gateways.send(self._running[key].peer, finished)
                self._release(key)
        self._is_stepping = bool(self._running or self._waiting)
        if self._is_stepping:
            self._loop.call_later(self._settings.step_s, self._step)
        elif self._state is SchedulerState.DRAINING:
            self._gateways.tell_status()
        self._gateways.tell_room()

    def _admit(self) -> None:
        """Admit waiting requests in the order in which they came, as far as KV blocks and places go."""
        for key, sequence in list(self._waiting.items()):
            if len(self._running) >= self._settings.max_running or sequence.kv_blocks > self._kv_blocks_free:
                return
            self._kv_blocks_free -= sequence.kv_blocks
            self._running[key] = self._waiting.pop(key)

    def _release(self, key: tuple[bytes, int]) -> None:
        taking = self._taking.pop(key, None)
        if taking is not None:
            taking.cancel()
        self._waiting.pop(key, None)
        sequence = self._running.pop(key, None)
        if sequence is not None:
            self._kv_blocks_free += sequence.kv_blocks

    def _refuse(self, sequence: EchoSequence, failure: Failure, reason: str) -> None:
        self._gateways.send(sequence.peer, Failed(sequence.request.attempt, failure, reason))
