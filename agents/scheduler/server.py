"""The scheduler of an instance as it runs: gateways on one side, stage workers on the other, the core between them."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby

import msgspec

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.channels.peer import Peer
from agents.gateways import Gateways
from agents.kv_pool.connection import PoolLostError
from agents.kv_pool.leased_quota import LeasedQuota
from agents.messages.to_gateway import Failed, Failure, SchedulerState, Status, WorkDone
from agents.messages.to_kv_source import Accept, Decline, Taken
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Generate
from agents.messages.to_stage_scheduler import KvLinkBroken, RowsMissing, RunSample, StageSampled
from agents.scheduler.core import SchedulerCore
from agents.scheduler.flight import BadResultError, Pooled, Sampled
from agents.scheduler.gateway_message import GatewayMessage
from agents.scheduler.hand_off_desk import HandOffDesk
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import Dispatch, ReleaseKv
from agents.scheduler.settings import SchedulerSettings
from agents.scheduler.stage_gang import StageGang

_log = logging.getLogger(__name__)


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
        quota: LeasedQuota | None = None,
    ) -> None:
        """`gateways`, `workers`: public key → name; workers have the names of the layout's nodes. `quota`: of a KV
        cache that models share, in blocks of the layout; None: it has its own.

        Raises OSError when an address is taken."""
        self._settings = settings or SchedulerSettings()
        self._core, self._quota = SchedulerCore(layout, self._settings.max_waiting), quota
        if quota is not None:
            self._core.limit_kv(quota.first)
        self._loop = asyncio.get_running_loop()
        self._is_due = self._was_drained = False
        self.over = asyncio.Event()
        self.failure = ""
        channel = self._settings.channel
        with ExitStack() as opened:
            self._gang = StageGang(bind_stages, interface, keys, workers, layout, self, channel)
            opened.callback(self._gang.close)
            self._desk = HandOffDesk(interface, keys, self._gang.tell, self, self._settings)
            opened.callback(self._desk.close)
            self._gateways = Gateways(bind, keys, gateways, self, channel)
            opened.pop_all()
        self.endpoint, self.stages_endpoint = self._gateways.endpoint, self._gang.endpoint

    @property
    def status(self) -> Status:
        is_loading = not self._gang.is_ready and self._core.status.state is SchedulerState.READY
        state = {"state": SchedulerState.LOADING} if is_loading else {}
        return msgspec.structs.replace(
            self._core.status,
            hand_off=self._desk.endpoint,
            obeys_rules=self._gang.obeys_rules,
            obeys_grammars=self._gang.obeys_grammars,
            pools=self._gang.pools,
            takes_rows=self._gang.row_takers if self._gang.is_ready else 0,
            **state,
        )

    @property
    def done(self) -> WorkDone:
        tally = self._core.tally
        return WorkDone(
            tally.prompt_tokens,
            tally.preemptions,
            tally.sent_kv_bytes,
            tally.received_kv_bytes,
            self._gang.node_stats,
            tally.looked_up_tokens,
            tally.found_tokens,
            tally.draft_tokens,
            tally.accepted_tokens,
        )

    async def stop(self) -> None:
        """Send the workers home, and give everybody a moment to read why before their connection ends."""
        self._gang.end(self.failure or "the scheduler stops")
        await asyncio.sleep(self._settings.channel.linger_s)
        self.close()

    def close(self) -> None:
        self._desk.close()
        self._gang.close()
        self._gateways.close()

    def submit(self, gateway: Peer, request: Generate) -> None:
        refusal = self._refusal(request)
        if refusal:
            self._gateways.send(gateway, Failed(request.attempt, Failure.UNSUPPORTED, refusal))
            return
        try:
            self._desk.meet(request)
        except (BadKeyError, ValueError) as error:
            self._gateways.send(gateway, Failed(request.attempt, Failure.HAND_OFF, str(error)[:1000]))
            return
        self._answer(self._core.submit(gateway, request, self._loop.time()))
        self._wake()

    def _refusal(self, request: Generate) -> str:
        """Return why the stages cannot do what is asked; empty where they can."""
        rules = request.sampling.rules
        if rules is not None and not self._gang.obeys_rules:
            return "stages of an earlier release serve here, which know no penalties, min_p or logit biases"
        if rules is not None and rules.grammar and not self._gang.obeys_grammars:
            return "there is no tokenizer.json beside the weights here, or no llguidance: no grammar can be obeyed"
        if request.pooling is not None and not self._gang.pools:
            return "the engine of the last stage hands out no hidden states: there are no embeddings"
        return ""

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
        self._desk.part(self._core.deals_with)
        self._renew_quota()
        self._wake()

    def _renew_quota(self) -> None:
        if self._quota is None or self.failure:
            return
        try:
            self._core.limit_kv(self._quota.renew(self._core.kv_blocks, self._core.kv_blocks_wanted))
        except PoolLostError as error:
            self.stages_lost(str(error))

    def stages_ready(self) -> None:
        self._core.streams_kv = self._gang.streams_kv
        self._core.share_kv(self._gang.shares_kv and self._settings.prefix_cache)
        if self._settings.speculation is not None and not self._gang.verifies_drafts:
            _log.warning("nothing is drafted: a stage verifies no drafts, by its engine or being of an earlier release")
        elif self._settings.speculation is not None:
            self._core.speculate(self._settings.speculation)
        self._answer(self._core.know_rows(self._gang.rows_taken))
        self._desk.begin(self._gang.kv_shape, self._gang.rendezvous)
        self._gateways.tell_status()
        self._wake()

    def stage_sampled(self, node: int, message: StageSampled) -> None:
        results: dict[int, Sampled | Pooled] = {made.run: Pooled(made.state) for made in message.states}
        results |= {run: _sampled(list(of_run)) for run, of_run in groupby(message.samples, lambda each: each.run)}
        try:
            self._answer(self._core.record(message.step, node, results))
        except BadResultError as error:
            self.stages_lost(str(error))
        self._wake()

    def kv_arrived(self, stage: int, node: int, run: int, moved_bytes: int) -> None:
        try:
            self._core.arrive(run, stage, node, moved_bytes)
        except BadResultError as error:
            self.stages_lost(str(error))
        self._wake()

    def kv_link_broke(self, message: KvLinkBroken) -> None:
        self._desk.link_broke(message)

    def rows_here(self, stage: int, node: int, run: int) -> None:
        try:
            self._core.rows_here(run, stage, node)
        except BadResultError as error:
            self.stages_lost(str(error))
        self._wake()

    def rows_missing(self, message: RowsMissing) -> None:
        self._answer(self._core.lack_rows(message.run, message.failure, message.reason))
        self._wake()

    def stages_lost(self, reason: str) -> None:
        if not self.failure:
            self.failure = reason
            self._answer(self._core.break_down(reason[:1000]))
            self._speak()
            self.over.set()

    def heard_target(self, key: str, message: Accept | Taken | Decline) -> None:
        self._answer(self._core.hear_target(key, message))
        self._wake()

    def heard_source(self, key: str, message: Offer | Withdraw) -> None:
        self._answer(self._core.hear_source(key, message))
        self._wake()

    def peer_back(self, key: str) -> None:
        self._core.offer_again(key)
        self._wake()

    def peer_lost(self, key: str, reason: str) -> None:
        self._answer(self._core.lose_peer(key, reason[:1000]))
        self._wake()

    def hand_off_stuck(self, runs: set[int], reason: str) -> None:
        self._answer(self._core.give_up(runs, reason[:1000]))
        self._wake()

    def _wake(self) -> None:
        """Order what there is to do, once for all that arrives together."""
        if not self._is_due and self._gang.is_ready and not self.failure:
            self._is_due = True
            self._loop.call_soon(self._order)

    def _order(self) -> None:
        self._is_due = False
        for order in () if self.failure else self._core.next_orders():
            if isinstance(order, Dispatch):
                self._desk.dispatch(order)
                continue
            self._gang.send(order)
            if isinstance(order, ReleaseKv):
                self._desk.release(order.run)
        self._speak()
        status = self._core.status
        is_drained = status.state is SchedulerState.DRAINING and not status.running + status.waiting
        if is_drained and not self._was_drained:
            self._gateways.tell_status()
        self._was_drained = is_drained
        self._gateways.tell_room()

    def _speak(self) -> None:
        for word in self._core.take_words():
            self._desk.say(word)

    def _answer(self, answers: Iterable[GatewayMessage]) -> None:
        for answer in answers:
            if isinstance(answer.to, Peer):
                self._gateways.send(answer.to, answer.message)


def _sampled(samples: Sequence[RunSample]) -> Sampled:
    """Return what was sampled for one run. Its samples follow each other."""
    logprobs = tuple(sample.logprobs for sample in samples if sample.logprobs is not None)
    return Sampled(tuple(sample.token for sample in samples), logprobs)
