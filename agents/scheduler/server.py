"""The scheduler of an instance as it runs: gateways on one side, stage workers on the other, the core between them."""

import asyncio
from collections.abc import Iterable, Mapping

from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.messages.to_gateway import SchedulerState, Status, ToGateway
from agents.messages.to_scheduler import AskStatus, Cancel, Drain, Generate, ToScheduler
from agents.messages.to_stage_scheduler import StageSampled
from agents.scheduler.core import Answer, BadResultError, Sampled, SchedulerCore
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.settings import SchedulerSettings
from agents.scheduler.stage_gang import StageGang


class InstanceScheduler:
    """Make it on a running loop. Requests that come while stages load wait until they are ready.

    Once a stage is lost, every request is failed with `engine` and `over` is set: the process should end."""

    def __init__(
        self,
        bind: str,
        bind_stages: str,
        interface: str,
        keys: KeyPair,
        gateways: Mapping[str, str],
        workers: Mapping[str, str],
        layout: PipelineLayout,
        settings: SchedulerSettings | None = None,
    ) -> None:
        """`gateways`, `workers`: public key → name; workers have the names of the layout's nodes.

        Raises OSError when an address is taken."""
        self._settings = settings or SchedulerSettings()
        self._core = SchedulerCore(layout, self._settings.max_waiting)
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self.over = asyncio.Event()
        self.failure = ""
        channel = self._settings.channel
        self._gang = StageGang(
            bind_stages, interface, keys, workers, layout, self._begin, self._take, self._fail, channel
        )
        try:
            self._listener: Listener[ToScheduler] = Listener(bind, keys, gateways, ToScheduler, self, channel)
        except OSError:
            self._gang.close()
            raise
        self.endpoint, self.stages_endpoint = self._listener.endpoint, self._gang.endpoint
        self._beat = self._loop.call_later(channel.heartbeat_s, self._on_beat)

    @property
    def status(self) -> Status:
        core = self._core.status
        if self._gang.is_ready or core.state is SchedulerState.DRAINING:
            return core
        return Status(SchedulerState.LOADING, core.running, core.waiting, core.kv_blocks, core.kv_blocks_free)

    async def stop(self) -> None:
        """Send the workers home, and give everybody a moment to read why before their connection ends."""
        self._gang.end(self.failure or "the scheduler stops")
        await asyncio.sleep(self._settings.channel.linger_s)
        self.close()

    def close(self) -> None:
        self._beat.cancel()
        self._gang.close()
        self._listener.close()

    def joined(self, peer: Peer) -> None:
        self._send(peer, self.status)

    def left(self, peer: Peer, _reason: str) -> None:
        self._core.leave(peer)
        self._wake()

    def received(self, peer: Peer, message: ToScheduler) -> None:
        match message:
            case Generate():
                self._answer(self._core.submit(peer, message, self._loop.time()))
            case Cancel():
                self._core.cancel(peer, message.attempt)
            case Drain():
                self._core.drain()
                self._tell_status()
            case AskStatus():
                self._send(peer, self.status)
        self._wake()

    def _begin(self) -> None:
        self._tell_status()
        self._wake()

    def _take(self, node: int, message: StageSampled) -> None:
        samples = {sample.run: Sampled(sample.token, sample.logprobs) for sample in message.samples}
        try:
            self._answer(self._core.record(message.step, node, samples))
        except BadResultError as error:
            self._fail(str(error))
            return
        self._wake()
        status = self._core.status
        if status.state is SchedulerState.DRAINING and not status.running + status.waiting:
            self._tell_status()

    def _fail(self, reason: str) -> None:
        if not self.failure:
            self.failure = reason
            self._answer(self._core.break_down(reason[:1000]))
            self.over.set()

    def _wake(self) -> None:
        """Order what there is to do, once for all that arrives together."""
        if not self._is_due and self._gang.is_ready and not self.failure:
            self._is_due = True
            self._loop.call_soon(self._order)

    def _order(self) -> None:
        self._is_due = False
        if not self.failure:
            self._gang.send(self._core.next_orders())

    def _on_beat(self) -> None:
        self._beat = self._loop.call_later(self._settings.channel.heartbeat_s, self._on_beat)
        self._answer(self._core.expire(self._loop.time()))
        self._tell_status()
        self._wake()

    def _tell_status(self) -> None:
        for peer in self._listener.peers:
            self._send(peer, self.status)

    def _answer(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            if isinstance(answer.to, Peer):
                self._send(answer.to, answer.message)

    def _send(self, peer: Peer, message: ToGateway) -> None:
        """A gateway that cannot be reached, or does not read, has lost its requests here; it resumes them elsewhere."""
        try:
            self._listener.send(peer, message)
        except ChannelError as error:
            self._listener.drop(peer, str(error))
