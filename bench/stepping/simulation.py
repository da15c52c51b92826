"""Gateways and the loop over events, around `SteppedInstance`s."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf, nan

import numpy as np

from agents.messages.to_gateway import Failure, Finished, FinishReason, Tokens
from agents.messages.to_kv_source import Accept, Decline, Taken
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Generate, Leg, Sampling
from agents.scheduler.gateway_message import GatewayMessage
from bench.stepping.hand_offs import HandOffs
from bench.stepping.stepped_instance import GATEWAY, TOKEN, SteppedInstance
from bench.stepping.streams import HandOff
from control.simulator.serving.changes import Change, What, changes
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.front import Front
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome
from control.simulator.serving.settings import ServingSettings
from policies.admission import Admission, Charge

_CHANGE, _LATE, _ARRIVAL, _STEP, _ARRIVED, _STALE, _ORDER, _SEND = range(-1, 7)
"""What goes first at one time; then by the number of what it happens to."""
_SAMPLING = Sampling(0.0, 1.0, 0, 0)

Message = Offer | Withdraw | Accept | Taken | Decline


@dataclass(slots=True, eq=False)
class Call:
    """A request, and what became of it."""

    number: int
    app: int
    prompt: int
    output: int
    outcome: Outcome = Outcome.UNFINISHED
    instances: tuple[int, int] = (-1, -1)
    queued_s: float = nan
    first_token_s: float = nan
    accepted_s: float = nan
    handed_s: float = nan
    finish_s: float = nan
    made: int = 0
    restarts: int = 0
    booked: tuple[Charge, ...] = ()
    parked_until_s: float = nan
    attempt: "Attempt | None" = None


@dataclass(slots=True, eq=False)
class Attempt:
    id: int
    call: Call
    open: list[SteppedInstance]
    """Legs that are not done."""
    is_accepted: bool = False
    """Its decode leg has room for the KV cache."""


class Simulation:
    def __init__(self, requests: Requests, fleet: FleetTimeline, settings: ServingSettings) -> None:
        self.calls = [
            Call(n, int(app), int(prompt), int(output))
            for n, (app, prompt, output) in enumerate(
                zip(requests.app, requests.prompt_tokens, requests.output_tokens, strict=True)
            )
        ]
        self._requests = requests
        self._fleet = fleet
        self._settings = settings
        self.instances = [SteppedInstance(n, life, settings) for n, life in enumerate(fleet.instances)]
        self._by_id = {instance.life.id: instance for instance in self.instances}
        self._hand_offs = HandOffs(
            self._by_id,
            lambda at_s, subject, send: self._push(at_s, _SEND, subject, send),
            self._request_of,
            lambda hand_off, at_s: self._push(
                at_s, _ARRIVED, self._attempts[hand_off.attempt].call.number, partial(self._kv_arrives, hand_off)
            ),
            streams_kv=settings.streams_kv,
        )
        self._fronts = [Front(app, fleet.work_classes((app,))) for app in requests.apps]
        self._usable: set[str] = set()
        self._admission = Admission(settings.max_wait_s)
        self._attempts: dict[int, Attempt] = {}
        self._ids = count(1)
        self._parked: list[dict[Call, None]] = [{} for _ in requests.apps]
        """Who waits longest first."""
        self._now_s = 0.0
        self._events: list[tuple[float, int, int, int, Callable[[], None]]] = []
        self._pushed = count()
        self._means = [
            fleet.mean_output_tokens.get(app, float(requests.output_tokens[requests.app == n].mean()))
            for n, app in enumerate(requests.apps)
        ]

    def run(self) -> None:
        for change in changes(self._fleet, self._settings.lost_after_s):
            self._push(change.at_s, _CHANGE, 0, partial(self._change, change))
        for call in self.calls:
            come_s = float(self._requests.arrival_s[call.number]) + self._settings.request_s
            self._push(come_s, _ARRIVAL, call.number, partial(self._arrive, call))
            self._push(come_s + self._settings.request_timeout_s, _LATE, call.number, partial(self._late, call))
        while self._events and self._events[0][0] < self._fleet.length_s:
            self._now_s, *_, happen = heapq.heappop(self._events)
            happen()

    def _push(self, at_s: float, priority: int, subject: int, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, priority, subject, next(self._pushed), happen))

    # -- what changes of the fleet

    def _change(self, change: Change) -> None:
        if change.what is What.DEAD:
            self.instances[change.number].is_alive = False
            return
        if change.what is What.TABLE:
            for front in self._fronts:
                front.take_table(self._fleet.tables[change.number][1])
        elif change.what is What.READY:
            self._usable.add(self.instances[change.number].life.id)
        else:
            self._usable.discard(self.instances[change.number].life.id)
        for front in self._fronts:
            front.take_usable(self._usable)
            self._note_room(front)
        if change.what is What.LOST:
            lost = self.instances[change.number]
            for attempt in [a for a in self._attempts.values() if lost in a.open]:
                self._lose(attempt, is_loss=True)
        for app in range(len(self._fronts)):
            self._wake_parked(app)

    # -- what gateways do

    def _arrive(self, call: Call) -> None:
        front = self._fronts[call.app]
        contexts = [
            life.station.max_context_tokens for life in self._fleet.instances if life.app == front.router.model.id
        ]
        if not front.is_known or call.prompt + call.output > min(contexts, default=0) or not self._is_admitted(call):
            call.outcome = Outcome.REFUSED
            return
        self._dispatch(call)

    def _is_admitted(self, call: Call) -> bool:
        if not self._settings.admits:
            return True
        rules, mean = self._fronts[call.app].rules, self._means[call.app]
        booked = tuple(charge for rule in rules if (charge := rule.charge(call.prompt, mean)).units)
        if self._admission.admit(booked, self._now_s) is not None:
            return False
        call.booked = booked
        return True

    def _late(self, call: Call) -> None:
        if call.outcome is Outcome.UNFINISHED:
            self._parked[call.app].pop(call, None)
            if call.attempt is not None:
                self._drop(call.attempt)
            self._finish(call, Outcome.LOST)

    def _dispatch(self, call: Call) -> None:
        front = self._fronts[call.app]
        chosen = front.router.choose(front.closed)
        if chosen is not None:
            self._send(call, [self._by_id[member.id] for member in chosen.members])
        else:
            self._park(call)

    def _send(self, call: Call, to: list[SteppedInstance]) -> None:
        attempt = Attempt(next(self._ids), call, list(to))
        self._attempts[attempt.id] = call.attempt = attempt
        before, call.instances = call.instances, (to[0].number, to[-1].number)
        call.parked_until_s = nan
        answers = []
        for n, instance in enumerate(to):
            instance.room.use()
            if not instance.is_alive:
                continue
            peer = to[1 - n].leg(str(attempt.id)) if len(to) == 2 else None
            generate = Generate(
                attempt=attempt.id,
                request=str(call.number),
                model=instance.life.app,
                prompt=(TOKEN,) * call.prompt,
                generated=(TOKEN,) * call.made,
                max_tokens=call.output,
                stop_ids=(),
                sampling=_SAMPLING,
                deadline_s=inf,
                leg=Leg(instance.life.leg),
                peer=peer,
                trace=str(call.number),
            )
            answers += [(instance, answer) for answer in instance.core.submit(GATEWAY, generate, self._now_s)]
            self._wake(instance)
        self._note_room(self._fronts[call.app])
        if answers:  # it was refused, and holds what it held before
            call.instances = before
        for instance, answer in answers:
            self._hear(instance, answer)

    def _hear(self, instance: SteppedInstance, answer: GatewayMessage) -> None:
        message = answer.message
        if isinstance(message, Tokens):
            for run in message.runs:
                call = self._attempts[run.attempt].call
                assert run.seq == call.made, "a token is lost, or came twice"
                call.made += len(run.ids)
                if np.isnan(call.first_token_s):
                    call.first_token_s = self._now_s + self._settings.reply_s
            return
        attempt = self._attempts.get(message.attempt)
        if attempt is None:
            return
        if isinstance(message, Finished):
            attempt.open.remove(instance)
            if message.reason is not FinishReason.HANDED_OFF:
                self._drop(attempt)
                self._finish(attempt.call, Outcome.SERVED)
        elif message.failure.is_retryable:
            is_full = message.failure is Failure.OVERLOADED
            if is_full:
                instance.room.refuse()
                self._note_room(self._fronts[attempt.call.app])
            self._lose(attempt, is_loss=not is_full)
        else:
            self._drop(attempt)
            self._finish(attempt.call, Outcome.LOST if attempt.call.made else Outcome.REFUSED)

    def _lose(self, attempt: Attempt, *, is_loss: bool) -> None:
        call = attempt.call
        self._drop(attempt)
        call.restarts += is_loss
        if call.restarts > self._settings.max_resumptions:
            self._finish(call, Outcome.LOST)
        else:
            self._dispatch(call)

    def _drop(self, attempt: Attempt) -> None:
        del self._attempts[attempt.id]
        attempt.call.attempt = None
        for instance in attempt.open:
            if instance.is_alive:
                instance.core.cancel(GATEWAY, attempt.id)
                self._wake(instance)
                self._speak(instance)

    def _finish(self, call: Call, outcome: Outcome) -> None:
        call.outcome = outcome
        if outcome is Outcome.SERVED:
            call.finish_s = self._now_s + self._settings.reply_s
        for charge in call.booked:
            if charge.per_output_token:
                left = charge.units - charge.per_output_token * call.made
                self._admission.give_back(replace(charge, units=left))

    def _park(self, call: Call) -> None:
        if np.isnan(call.parked_until_s):
            call.parked_until_s = self._now_s + self._settings.resume_wait_s
        if self._now_s >= call.parked_until_s:
            self._finish(call, Outcome.LOST)
            return
        self._parked[call.app][call] = None
        self._push(call.parked_until_s, _STALE, call.number, partial(self._give_up, call, call.parked_until_s))

    def _give_up(self, call: Call, until_s: float) -> None:
        if call in self._parked[call.app] and call.parked_until_s == until_s:
            del self._parked[call.app][call]
            self._dispatch(call)

    def _wake_parked(self, app: int) -> None:
        """Try them as long as something is open, each once."""
        front, parked = self._fronts[app], self._parked[app]
        for _ in range(len(parked)):
            if not parked or not front.router.can_choose(front.closed):
                return
            call = next(iter(parked))
            del parked[call]
            self._dispatch(call)

    def _note_room(self, front: Front) -> None:
        routed = (self._by_id[member.id] for member in front.router.model.members)
        front.take_full({instance.life.id for instance in routed if instance.room.is_full})

    # -- what instances do

    def _wake(self, instance: SteppedInstance) -> None:
        if instance.is_alive and not instance.is_due:
            instance.is_due = True
            self._push(self._now_s, _ORDER, instance.number, partial(self._order, instance))

    def _order(self, instance: SteppedInstance) -> None:
        instance.is_due = False
        if not instance.is_alive:
            return
        wanted = instance.order(self._now_s)
        for group, step, end_s in wanted.steps:
            self._push(end_s, _STEP, self._group(instance, group), partial(self._join, instance, step))
        for dispatch in wanted.sent:
            self._hand_offs.begin(instance, dispatch, self._now_s)
        for piece in wanted.pieces:
            self._hand_offs.send(piece)
        for request, start_s in wanted.begun.items():
            call = self.calls[request]
            if np.isnan(call.queued_s):
                call.queued_s = start_s - float(self._requests.arrival_s[request])
        self._speak(instance)
        self._tell_room(instance)

    def _tell_room(self, instance: SteppedInstance) -> None:
        room = instance.core.status.room
        if room and instance.room.is_full:
            instance.room.tell(room)
            app = self._requests.apps.index(instance.life.app)
            self._note_room(self._fronts[app])
            self._wake_parked(app)

    def _group(self, instance: SteppedInstance, group: int) -> int:
        return sum(before.life.station.groups for before in self.instances[: instance.number]) + group

    def _join(self, instance: SteppedInstance, step: int) -> None:
        if not instance.is_alive:
            return
        for answer in instance.join(step):
            self._hear(instance, answer)
        self._speak(instance)
        self._wake(instance)

    def _request_of(self, hand_off: HandOff) -> int | None:
        """Number of the request that a KV cache still goes for."""
        attempt = self._attempts.get(hand_off.attempt)
        ends = self._by_id[hand_off.source], self._by_id[hand_off.target]
        return attempt.call.number if attempt is not None and all(each.is_alive for each in ends) else None

    def _kv_arrives(self, hand_off: HandOff) -> None:
        if self._request_of(hand_off) is None:
            return
        target = self._by_id[hand_off.target]
        for stage, node in enumerate(hand_off.order.target_nodes):
            target.core.arrive(hand_off.order.target_run, stage, node, 0)
        self._speak(target)
        self._wake(target)

    def _offer_arrives(self, source: SteppedInstance, target: SteppedInstance, offer: Offer) -> None:
        """The first token is known where the KV cache goes."""
        if int(offer.hand_off) in self._attempts and source.is_alive and target.is_alive:
            self._say(source, target, offer)

    def _speak(self, instance: SteppedInstance) -> None:
        """Have the other legs' schedulers hear what this one says, at once."""
        for word in instance.core.take_words():
            other, message = self._by_id[word.to.public_key], word.message
            attempt = self._attempts.get(int(message.hand_off))
            if attempt is not None and isinstance(message, Accept) and not attempt.is_accepted:
                attempt.is_accepted = True
                attempt.call.accepted_s = self._now_s
            elif attempt is not None and isinstance(message, Taken):
                attempt.call.handed_s = self._now_s
            if attempt is not None and attempt.is_accepted and isinstance(message, Offer):
                # Before, the time of a message is part of what a KV cache takes.
                told_s = self._now_s + instance.life.station.hand_off_s / 2
                tell = partial(self._offer_arrives, instance, other, message)
                self._push(told_s, _ARRIVED, attempt.call.number, tell)
            elif other.is_alive:
                self._say(instance, other, message)

    def _say(self, instance: SteppedInstance, other: SteppedInstance, message: Message) -> None:
        if isinstance(message, Offer | Withdraw):
            answers: Iterable[GatewayMessage] = other.core.hear_source(instance.life.id, message)
        else:
            answers = other.core.hear_target(instance.life.id, message)
        for answer in answers:
            self._hear(other, answer)
        self._wake(other)
        self._speak(other)
