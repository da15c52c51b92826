"""The scheduler of one pipeline, without sockets, clocks or engines: requests and results in, orders and answers out.

Requests are admitted in the order of their turns, first come first served where gateways say no other, into as many
groups as there are stages. A group has at most one step under way, so every stage works on another group
(`lockstep-v1`, design section 7). Prefill legs have lanes instead, more than that, and go as soon as one is free: none
waits for others to come round. A step takes one token of each member that decodes and, within the nodes' chunks, prompt
tokens of those that do not yet. KV blocks for all known tokens are taken on admission, more as the output grows; where
there are none, the request at that node whose turn is last gives up its cache, waits, and is computed again from the
tokens it has.

Where a spec asks for it, steps bring drafts of what comes next beside: `drafts` says how.

Where the stages can, a prompt that begins as one before it begins with that one's KV blocks: `block_book`
says how. A request of two legs has its KV cache handed over between two such cores: `hand_offs` says how. One that
comes with rows of other components (`given`) takes part in steps once the nodes that need them have taken them. Where
it is computed again they are taken again; if they are gone by then it fails, and its gateway has them made again.
"""

from bisect import insort
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from agents.messages.to_gateway import (
    Failed,
    Failure,
    Finished,
    FinishReason,
    SchedulerState,
    Status,
    TokenRun,
    Tokens,
)
from agents.messages.to_kv_source import Accept, Decline, Taken
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Generate, Leg
from agents.scheduler.flight import BadResultError, Flight, Flights, Pooled, Sampled
from agents.scheduler.gateway_message import GatewayMessage, finished
from agents.scheduler.given import RowsTaken, unfit_rows
from agents.scheduler.hand_offs import HandOffs, PeerMessage
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import Dispatch, GroupStep, Order, ReserveKv, StepEntry
from agents.scheduler.request_check import output_limit, unfit
from agents.scheduler.runs import Runs
from agents.scheduler.sequence import ActiveRun, Key, Sequence, SequencePhase
from agents.scheduler.step_entries import step_entries
from agents.scheduler.tally import Tally
from templates_lib.values.speculation import Speculation


class SchedulerCore:
    def __init__(self, layout: PipelineLayout, max_waiting: int, *, streams_kv: bool = False) -> None:
        """`max_waiting`: requests not admitted yet; more are refused as overloaded. `streams_kv`: whether the stages
        can send KV cache while it is computed."""
        self._layout = layout
        self._max_waiting = max_waiting
        self.streams_kv = streams_kv
        self._runs = Runs(layout)
        self._is_draining = False
        self._broken = ""
        self._arrivals = self._steps = 0
        self._all: dict[Key, Sequence] = {}
        self._waiting: list[Sequence] = []
        """In order of their turns: as they came, where gateways say nothing else."""
        self._flights = Flights()
        self._hand_offs = HandOffs()
        self._speculation: Speculation | None = None
        self._taken: RowsTaken | None = None
        self._knows_rows = False
        self._quota: int | None = None
        self._lacking = 0
        """Blocks that running requests could not grow by when orders were made last."""
        self.tally = Tally()

    def know_rows(self, taken: RowsTaken | None) -> tuple[GatewayMessage, ...]:
        """Say, before the first step, what the stages take of other components' rows, None: nothing; fail what has come
        and does not fit that."""
        self._taken, self._knows_rows = taken, True
        self._runs.rows = taken or RowsTaken()
        unfit = ((sequence, next(unfit_rows(sequence.request, taken), None)) for sequence in list(self._all.values()))
        failed = [self._fail([sequence], *why) for sequence, why in unfit if why is not None]
        return tuple(answer for answers in failed for answer in answers)

    def share_kv(self, shares: bool) -> None:
        """Say, before the first step, whether prompts begin with KV blocks of those before them."""
        self._runs.shares_kv = shares

    def speculate(self, speculation: Speculation | None) -> None:
        """Say how answers are drafted from now on, which all stages must be able to verify; None: not at all."""
        self._speculation = speculation

    def limit_kv(self, blocks: int) -> None:
        """Have no more than so many KV blocks of each node from now on, of those that the layout names. A request that
        holds more keeps them."""
        self._quota = blocks
        self._follow_quota()

    @property
    def kv_blocks(self) -> int:
        """KV blocks that are counted on: with a limit that was lowered, as many as requests still hold."""
        return self._runs.groups.kv_blocks

    @property
    def kv_blocks_wanted(self) -> int:
        """KV blocks that requests wait for; 0 where they wait for something else, or none does."""
        first = next(iter(self._waiting), None)
        blocked = first is not None and self._runs.blocks(first.needed_tokens) > self._runs.groups.least_free
        waiting = sum(self._runs.blocks(each.needed_tokens) for each in self._waiting) if blocked else 0
        return waiting + self._lacking

    @property
    def status(self) -> Status:
        waiting = len(self._all) - len(self._runs)
        return Status(
            SchedulerState.DRAINING if self._is_draining else SchedulerState.READY,
            len(self._runs),
            waiting,
            self._runs.groups.kv_blocks,
            self._runs.groups.least_free,
            room=max(0, self._max_waiting - waiting),
            places=0 if self._waiting else self._runs.groups.places,
            prompt_tokens_free=self._runs.groups.prompt_tokens_free,
        )

    def submit(self, owner: Hashable, request: Generate, now_s: float) -> tuple[GatewayMessage, ...]:
        """Take a request, or answer why not."""
        limit = output_limit(request, self._layout)
        refusal = next(self._refusals(owner, request, limit), None)
        if refusal is not None:
            return (GatewayMessage(owner, Failed(request.attempt, *refusal)),)
        if len(request.generated) >= limit:
            return (GatewayMessage(owner, Finished(request.attempt, FinishReason.LENGTH, len(request.generated))),)
        self._arrivals += 1
        sequence = Sequence((owner, request.attempt), request, self._arrivals, now_s + request.deadline_s, limit)
        sequence.turn_s = now_s + request.later_s
        self._all[sequence.key] = sequence
        offer = self._hand_offs.begin(sequence) if request.peer is not None else None
        if request.leg is Leg.DECODE:
            sequence.phase = SequencePhase.EXPECTED
            return () if offer is None else self._take_offer(sequence, offer)
        insort(self._waiting, sequence, key=lambda s: s.turn)
        return ()

    def cancel(self, owner: Hashable, attempt: int) -> None:
        sequence = self._all.get((owner, attempt))
        if sequence is not None:
            self._forget(sequence, "cancelled")

    def leave(self, owner: Hashable) -> None:
        """The gateway is gone: nobody waits for its requests."""
        for sequence in [s for s in self._all.values() if s.key[0] == owner]:
            self._forget(sequence, "its gateway is gone")

    def drain(self) -> None:
        """Take no new request; those held are finished."""
        self._is_draining = True

    def expire(self, now_s: float) -> tuple[GatewayMessage, ...]:
        """Fail what is past its deadline."""
        self._hand_offs.forget_late(now_s)
        late = [s for s in self._all.values() if s.expires_s <= now_s]
        return self._fail(late, Failure.DEADLINE, "the request took longer than it may")

    def break_down(self, reason: str) -> tuple[GatewayMessage, ...]:
        """A stage is lost: nothing held can be finished here, nothing new is taken."""
        self._broken = reason
        answers = self._fail(list(self._all.values()), Failure.ENGINE, reason)
        self._flights.clear()
        self._runs.take_due()
        return answers

    def take_words(self) -> tuple[PeerMessage, ...]:
        """Take what is to be said to schedulers of other legs, once the orders before are on their way."""
        return self._hand_offs.take_words()

    def hear_target(self, key: str, message: Accept | Taken | Decline) -> tuple[GatewayMessage, ...]:
        """The decode leg's scheduler, known by its key, about one of our prefill legs."""
        sequence = self._hand_offs.find(key, message.hand_off, Leg.PREFILL)
        if sequence is None or not sequence.is_offered:
            self.tally.sent_kv_bytes += self._hand_offs.taken_after_all(key, message)
            return ()  # over, and said so
        peer, held = sequence.request.peer, sequence.admission
        if isinstance(message, Decline):
            if held is not None:
                held.target_run = -1  # it goes nowhere: no word of it is to come
            return self._fail([sequence], Failure.HAND_OFF, f"the decode leg does not take it: {message.reason}")
        if held is None or peer is None:
            return ()  # preempted; it is offered again when it begins anew
        if isinstance(message, Accept):
            if held.target_run != message.run:  # else it was said twice
                held.target_run = message.run
                tokens = held.shared_tokens + held.prompt
                self._runs.say(Dispatch(held.run, held.nodes, tokens, peer, message.run, message.nodes))
            return ()
        if sequence.phase is not SequencePhase.HELD:
            return ()  # not even computed
        self.tally.sent_kv_bytes += message.moved_bytes
        sequence.is_offered = False
        self._forget(sequence, "")
        return (finished(sequence, FinishReason.HANDED_OFF),)

    def hear_source(self, key: str, message: Offer | Withdraw) -> tuple[GatewayMessage, ...]:
        """The prefill leg's scheduler, known by its key, about one of our decode legs."""
        sequence = self._hand_offs.find(key, message.hand_off, Leg.DECODE)
        if isinstance(message, Withdraw):
            self._hand_offs.forget_early(key, message.hand_off)
            if sequence is None or sequence.has_own_kv:
                return ()
            if message.is_early:
                self._expect_again(sequence)
                return ()
            return self._fail([sequence], Failure.HAND_OFF, "the prefill leg has nothing to hand off any more")
        if sequence is None:
            self._hand_offs.keep_early(key, message)
        elif sequence.has_own_kv:
            self._hand_offs.taken(sequence)
        else:
            return self._take_offer(sequence, message)
        return ()

    def offer_again(self, key: str) -> None:
        """A decode leg's scheduler has been out of reach for a moment."""
        self._hand_offs.offer_again(key)

    def deals_with(self, key: str) -> bool:
        """Tell whether some request here has its other leg there."""
        return bool(self._hand_offs.of(key))

    def lose_peer(self, key: str, reason: str) -> tuple[GatewayMessage, ...]:
        """Give up what is between another instance, which is out of reach, and us: it cannot be handed off."""
        self._hand_offs.forget_early(key)
        waiting = [s for s in self._hand_offs.of(key) if s.is_pinned or not s.has_own_kv]
        return self._fail(waiting, Failure.HAND_OFF, reason)

    def give_up(self, runs: Collection[int], reason: str) -> tuple[GatewayMessage, ...]:
        """Fail the requests of runs whose KV cache cannot be sent."""
        stuck = [s for s in self._runs.of(runs) if s.is_offered]
        return self._fail(stuck, Failure.HAND_OFF, reason)

    def arrive(self, run: int, stage: int, node: int, moved_bytes: int) -> None:
        """A node has all of a run's KV cache. Raises BadResultError."""
        sequence = self._runs.get(run)
        held = sequence.admission if sequence else None
        if sequence is None or held is None:
            return  # gone meanwhile
        if sequence.phase is not SequencePhase.COMING or held.nodes[stage] != node or stage not in held.awaited:
            raise BadResultError(f"node {node} of stage {stage} got KV cache of run {run}, which does not wait for any")
        held.awaited.remove(stage)
        held.moved_bytes += moved_bytes
        self.tally.received_kv_bytes += moved_bytes
        self._go_on(sequence, held)

    def rows_here(self, run: int, stage: int, node: int) -> None:
        """A node has all rows of other components that it was to take for a run. Raises BadResultError."""
        sequence = self._runs.get(run)
        held = sequence.admission if sequence else None
        if sequence is None or held is None:
            return  # gone meanwhile
        if held.nodes[stage] != node or stage not in held.awaited_rows:
            raise BadResultError(f"node {node} of stage {stage} has rows of run {run}, which does not wait for any")
        held.awaited_rows.remove(stage)
        if sequence.phase is SequencePhase.COMING:
            self._go_on(sequence, held)
        elif not held.awaited_rows:
            sequence.phase = SequencePhase.COMPUTED

    def lack_rows(self, run: int, failure: Failure, reason: str) -> tuple[GatewayMessage, ...]:
        """Fail the request of a run whose rows of other components cannot be had."""
        return self._fail(self._runs.of({run}), failure, reason)

    def next_orders(self) -> tuple[Order, ...]:
        """Admit what fits and order a step of every group that has none under way and something to do."""
        orders: list[Order] = []
        self._follow_quota()
        self._lacking = 0
        ordered = -1
        # Again where somebody waits for KV blocks that have been ordered now.
        while ordered < 0 or (self._runs.some_await_blocks and len(orders) > ordered):
            ordered = len(orders)
            busy = self._flights.launched.keys()
            self._admit(busy)
            for group in range(self._layout.groups + self._layout.lanes):
                entries = () if group in busy else self._entries(group)
                orders += self._runs.take_due()
                if entries:
                    orders.append(self._launch(group, entries))
        return tuple(orders)

    def record(self, step: int, node: int, results: Mapping[int, Sampled | Pooled]) -> tuple[GatewayMessage, ...]:
        """Record what a node of the last stage made, by run. The group goes on once all of them have reported.

        Raises BadResultError."""
        flight = self._flights.land(step, node, results)
        return () if flight is None else self._join(flight)

    def _join(self, flight: Flight) -> tuple[GatewayMessage, ...]:
        """The whole group is through: its requests move on."""
        made: dict[Hashable, list[TokenRun]] = {}
        ended: list[GatewayMessage] = []
        for entry in flight.step.entries:
            sequence = self._runs.get(entry.run)
            if sequence is None or sequence.admission is None:
                continue  # cancelled or preempted meanwhile
            sequence.admission.position += entry.known_tokens
            self.tally.prompt_tokens += 0 if sequence.admission.has_sampled else entry.known_tokens
            result = flight.results.get(entry.run)
            if result is None:
                continue
            self._runs.put_off_no_more(sequence.admission)
            sequence.admission.has_sampled = True
            if isinstance(result, Pooled):
                self._forget(sequence, "")
                ended.append(finished(sequence, FinishReason.STOP, result.state))
                continue
            run, reason = sequence.append(result.tokens, result.logprobs)
            if entry.draft:
                self._accept(sequence, sequence.admission, len(entry.draft), len(result.tokens) - 1)
            if run is not None:
                made.setdefault(sequence.key[0], []).append(run)
            if reason is None and sequence.is_prefill:
                sequence.phase = SequencePhase.HELD
                self._hand_offs.offer(sequence)
            if reason is not None:
                self._forget(sequence, "")
                ended.append(finished(sequence, reason))
        return (*(GatewayMessage(owner, Tokens(tuple(runs))) for owner, runs in made.items()), *ended)

    def _accept(self, sequence: Sequence, held: ActiveRun, drafted: int, right: int) -> None:
        """Count the tokens of a draft that were right as cached: behind one that ended the output there are none."""
        self.tally.draft_tokens += drafted
        self.tally.accepted_tokens += right
        held.position = min(held.position + right, len(sequence.tokens))
        held.trust.learn(right, len(sequence.tokens))
        self._runs.publish(sequence, held, held.position)

    def _refusals(self, owner: Hashable, request: Generate, limit: int) -> Iterator[tuple[Failure, str]]:
        """Yield why the request is not taken; the first reason is the one to give."""
        if self._broken:
            yield Failure.ENGINE, self._broken
        if self._is_draining:
            yield Failure.DRAINING, "takes no new request"
        yield from unfit(request, self._layout)
        if self._knows_rows:
            yield from unfit_rows(request, self._taken)
        if (request.peer is None) is not (request.leg is Leg.WHOLE):
            yield Failure.HAND_OFF, "a request of two legs has two instances, and a whole one has one"
        if request.peer is not None and self._hand_offs.knows(request.peer.hand_off):
            yield Failure.HAND_OFF, "the hand-off is under way already"
        if (owner, request.attempt) in self._all:
            yield Failure.UNSUPPORTED, "the attempt is under way already"
        output = len(request.generated) if request.leg is Leg.PREFILL else limit - 1
        most_blocks = self._runs.blocks(len(request.prompt) + output)
        if most_blocks > (longest := self._runs.groups.longest_blocks):
            need = f"prompt and output need {most_blocks} KV blocks of {self._layout.block_tokens} tokens on one node"
            yield Failure.TOO_LONG, f"{need}, and no request can ever have more than {longest}"
        if not self.status.room:
            yield Failure.OVERLOADED, f"{self.status.waiting} requests wait"

    def _take_offer(self, sequence: Sequence, offer: Offer) -> tuple[GatewayMessage, ...]:
        """The KV cache of a request can come, or the token behind it is known, or both was said before."""
        is_new, held = sequence.phase is SequencePhase.EXPECTED, sequence.admission
        if is_new and offer.token is None and sequence.output_tokens + 1 >= sequence.max_output:
            return ()  # our context is shorter than theirs: it ends with that token
        if is_new:
            sequence.phase, sequence.lacks_token = SequencePhase.OFFERED, True
        if sequence.lacks_token:
            if offer.tokens != len(sequence.tokens) or (offer.token or 0) >= self._layout.vocab_size:
                told = f"{offer.tokens} tokens and token {offer.token} are offered"
                return self._fail([sequence], Failure.HAND_OFF, f"{told}, of a prompt of {len(sequence.tokens)}")
            if offer.token is not None:
                sequence.lacks_token = False
                sequence.tokens.append(offer.token)
        if sequence.output_tokens >= sequence.max_output:
            self._hand_offs.taken(sequence)
            sequence.phase = SequencePhase.COMPUTED
            self._forget(sequence, "")
            return (finished(sequence, FinishReason.LENGTH),)
        if is_new:
            insort(self._waiting, sequence, key=lambda s: s.turn)
        elif held is not None and not self._go_on(sequence, held):
            self._hand_offs.accept(sequence)
        return ()

    def _go_on(self, sequence: Sequence, held: ActiveRun) -> bool:
        """Have a request take part in steps, once its KV cache is here and the token behind it is known."""
        if held.awaited or held.awaited_rows or sequence.lacks_token:
            return False
        sequence.phase = SequencePhase.COMPUTED
        self._runs.move_to_soonest(held, self._flights.launched)
        self._hand_offs.taken(sequence)
        return True

    def _expect_again(self, sequence: Sequence) -> None:
        """What was offered does not come: give back what it holds."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        self._runs.stop(sequence)
        sequence.phase, sequence.lacks_token = SequencePhase.EXPECTED, False

    def _admit(self, busy: Collection[int]) -> None:
        for sequence, held in self._runs.admit_first(self._waiting, busy):
            if self._runs.looks_up(sequence):
                self.tally.looked_up_tokens += sequence.needed_tokens
                self.tally.found_tokens += held.shared_tokens
            if sequence.phase is SequencePhase.OFFERED:
                self._await_kv(sequence, held)
            if sequence.request.given:
                self._runs.have_rows_taken(sequence, held)

    def _await_kv(self, sequence: Sequence, held: ActiveRun) -> None:
        """Reserve blocks for a request's KV cache and tell the prefill leg that it may send."""
        sequence.phase = SequencePhase.COMING
        held.position = sequence.needed_tokens - 1
        held.has_sampled = True
        held.awaited = set(range(len(self._layout.stages)))
        self._runs.say(ReserveKv(held.run, held.nodes, held.position))
        self._hand_offs.accept(sequence)

    def _follow_quota(self) -> None:
        if self._quota is None:
            return
        # Fewer only between steps: the nodes may still take, for a step under way, what its requests were given.
        if self._quota > self.kv_blocks or not self._flights:
            self._runs.groups.resize(self._quota)

    def _entries(self, group: int) -> tuple[StepEntry, ...]:
        return step_entries(group, self._runs, self._layout, self._grow, self._speculation)

    def _launch(self, group: int, entries: tuple[StepEntry, ...]) -> GroupStep:
        self._steps += 1
        step = GroupStep(self._steps, group, entries)
        self._flights.launch(step)
        if self.streams_kv:
            for sequence in self._runs.of({entry.run for entry in entries}):
                begins = sequence.admission is not None and sequence.admission.is_new
                if begins and sequence.is_prefill and sequence.output_tokens + 1 < sequence.max_output:
                    self._hand_offs.offer(sequence)
        return step

    def _grow(self, sequence: Sequence, held: ActiveRun, tokens: int) -> bool:
        """Blocks for so many tokens, at the cost of younger requests; False where older ones hold them."""
        found = self._runs.grow(sequence, held, tokens)
        if found is None:
            self._lacking += self._runs.blocks(tokens) - held.blocks
            return False
        self.tally.preemptions += len(found)
        for victim in found:
            insort(self._waiting, victim, key=lambda s: s.turn)
        return True

    def _forget(self, sequence: Sequence, reason: str) -> None:
        """Forget a request. `reason`: for the other leg, where there is one that waits."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        self._hand_offs.end(sequence, reason)
        self._runs.stop(sequence)
        del self._all[sequence.key]

    def _fail(self, sequences: Iterable[Sequence], failure: Failure, reason: str) -> tuple[GatewayMessage, ...]:
        answers = []
        for sequence in sequences:
            self._forget(sequence, reason)
            answers.append(GatewayMessage(sequence.key[0], Failed(sequence.request.attempt, failure, reason)))
        return tuple(answers)
