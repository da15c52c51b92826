"""The scheduler of an instance as it runs: gateways on one side, stage workers on the other, the core between them."""

import asyncio
from collections.abc import Iterable, Mapping

from agents.channels.keys import KeyPair
from agents.channels.peer import Peer
from agents.gateways import Gateways
from agents.messages.to_gateway import SchedulerState, Status
from agents.messages.to_scheduler import Generate
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
            self._gateways = Gateways(bind, keys, gateways, self, channel)
        except OSError:
            self._gang.close()
            raise
        self.endpoint, self.stages_endpoint = self._gateways.endpoint, self._gang.endpoint

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
        self._gang.close()
        self._gateways.close()

    def submit(self, gateway: Peer, request: Generate) -> None:
        self._answer(self._core.submit(gateway, request, self._loop.time()))
        self._wake()

    def cancel(self, gateway: Peer, attempt: int) -> None:
        self._core.cancel(gateway, attempt)
        self._wake()

    def drain(self) -> None:
        self._core.drain()

    def leave(self, gateway: Peer) -> None:
        self._core.leave(gateway)
        self._wake()

    def beat(self) -> None:
        self._answer(self._core.expire(self._loop.time()))
        self._wake()

    def _begin(self) -> None:
        self._gateways.tell_status()
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
            self._gateways.tell_status()

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

    def _answer(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            if isinstance(answer.to, Peer):
                self._gateways.send(answer.to, answer.message)
