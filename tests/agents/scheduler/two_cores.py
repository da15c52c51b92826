"""A prefill and a decode scheduler, the gateway's part, and what is between the two: words, KV cache and failures."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Leg, OtherLeg
from agents.scheduler.core import SchedulerCore
from agents.scheduler.hand_offs import PeerMessage, is_early
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import Dispatch
from templates_lib.values.speculation import Speculation
from tests.agents.scheduler.fake_stages import Choose, FakeStages, asked, continuation, next_token

PREFILL, DECODE = "p" * 40, "d" * 40
"""The schedulers' keys."""


@dataclass
class TwoCores:
    prefill_layout: PipelineLayout
    decode_layout: PipelineLayout
    streams_kv: bool = False
    hears_early: bool = True
    """Whether the decode side is told of prompts that are still being computed; else it is of the release before."""
    choose: Choose = next_token
    wanted: dict[int, list[int]] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    """Cancelled, or failed: a gateway would try these elsewhere."""
    to_decode: deque[PeerMessage] = field(default_factory=deque)
    to_prefill: deque[PeerMessage] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.prefill, self.decode = (
            FakeStages(SchedulerCore(layout, 1000, streams_kv=self.streams_kv), layout, self.choose)
            for layout in (self.prefill_layout, self.decode_layout)
        )
        for side in (self.prefill, self.decode):
            side.core.share_kv(True)
            side.core.speculate(Speculation(1, 3))  # seldom right where `choose` is `next_token`
        self.decode.tokens = self.prefill.tokens
        self.arrived: set[tuple[int, int]] = set()

    def submit(
        self, length: int, max_tokens: int, resumed: int, decode_first: bool, stop_ids: tuple[int, ...] = (1,)
    ) -> None:
        attempt = len(self.wanted)
        prompt = tuple(range(attempt, attempt + length))
        self.wanted[attempt] = continuation(prompt, max_tokens, stop_ids, self.choose)
        sent = tuple(self.wanted[attempt][:resumed])
        self.prefill.tokens[attempt] = list(sent)
        for leg in (Leg.DECODE, Leg.PREFILL) if decode_first else (Leg.PREFILL, Leg.DECODE):
            side, other = (self.prefill, DECODE) if leg is Leg.PREFILL else (self.decode, PREFILL)
            peer = OtherLeg("other", "tcp://other:1", other, f"h{attempt}")
            request = asked(attempt, prompt, max_tokens, generated=sent, stop_ids=stop_ids, leg=leg, peer=peer)
            side.hear(side.core.submit("gw", request, 0.0))
        self.settle()

    def cancel(self, attempt: int) -> None:
        if attempt in self.wanted:
            self.stopped.add(attempt)
            self.drop(attempt)

    def drop(self, attempt: int) -> None:
        for side in (self.prefill, self.decode):
            side.core.cancel("gw", attempt)

    def report(self, is_decode: bool, place: int) -> None:
        side = self.side(is_decode)
        if side.flights:
            side.report(sorted(side.flights)[place % len(side.flights)])
            self.settle()

    def side(self, is_decode: bool) -> FakeStages:
        return self.decode if is_decode else self.prefill

    def order(self, is_decode: bool) -> int:
        side = self.side(is_decode)
        count = side.order()
        for word in side.core.take_words():
            is_ours = isinstance(word.message, Offer | Withdraw)
            assert word.to.public_key == (DECODE if is_ours else PREFILL)
            if is_ours and is_early(word.message) and not self.hears_early:
                continue
            (self.to_decode if is_ours else self.to_prefill).append(word)
        return count

    def hear(self, is_decode: bool) -> bool:
        """One word gets through."""
        words, side = (self.to_decode, self.decode) if is_decode else (self.to_prefill, self.prefill)
        if not words:
            return False
        word = words.popleft()
        if is_decode:
            side.hear(side.core.hear_source(PREFILL, word.message))
        else:
            side.hear(side.core.hear_target(DECODE, word.message))
        self.settle()
        return True

    def deliver(self, place: int) -> bool:
        """One node of the decode side gets all its KV cache of one request."""
        due = list(self._deliveries())
        if not due:
            return False
        order, stage = due[place % len(due)]
        self.arrived.add((order.target_run, stage))
        if all((order.target_run, s) in self.arrived for s in range(len(order.target_nodes))):
            self.decode.cached[order.target_run] = list(self.prefill.cached[order.run])
            assert self.decode.coming.pop(order.target_run) == order.tokens
        self.decode.core.arrive(order.target_run, stage, order.target_nodes[stage], 100)
        return True

    def _deliveries(self) -> Iterator[tuple[Dispatch, int]]:
        """What is computed, or is in the step that the end of the prompt goes through."""
        for order in self.prefill.dispatches:
            for stage in range(len(order.target_nodes)):
                is_computed = len(self.prefill.cached.get(order.run, ())) == order.tokens
                is_on_its_way = is_computed and order.target_run in self.decode.coming
                if is_on_its_way and (order.target_run, stage) not in self.arrived:
                    yield order, stage

    def reconnect(self) -> None:
        """What was said and not heard is lost."""
        self.to_decode.clear()
        self.to_prefill.clear()
        self.prefill.core.offer_again(DECODE)

    def part(self, is_decode: bool) -> None:
        side, key = (self.decode, PREFILL) if is_decode else (self.prefill, DECODE)
        side.hear(side.core.lose_peer(key, "out of reach"))
        self.settle()

    def strand(self) -> None:
        """Nothing of what is being sent gets through."""
        runs = {order.run for order in self.prefill.dispatches}
        self.prefill.hear(self.prefill.core.give_up(runs, "the link is broken"))
        self.settle()

    def settle(self) -> None:
        """The gateway: what has ended on one leg is dropped on the other, unless that goes on."""
        for side in (self.prefill, self.decode):
            for attempt, ends in side.ended.items():
                end = ends[0]
                if isinstance(end, Failed):
                    assert end.failure in (Failure.HAND_OFF, Failure.TOO_LONG)
                    self.stopped.add(attempt)
                if not (isinstance(end, Finished) and end.reason is FinishReason.HANDED_OFF):
                    self.drop(attempt)

    def run_dry(self) -> None:
        """Until nothing is under way."""
        is_moving = True
        while is_moving:
            is_moving = bool(self.order(False)) | bool(self.order(True))
            for side in (self.prefill, self.decode):
                if side.flights:
                    side.report(min(side.flights))
                    is_moving = True
            self.settle()
            is_moving |= self.hear(True) | self.hear(False) | self.deliver(0)
