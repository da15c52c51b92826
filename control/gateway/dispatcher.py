"""Sends calls to instances, takes in what comes, and goes on elsewhere when an instance fails.

Theory of operation: a call has at most one attempt at a time. Whatever ends an attempt without a result (the link is
lost, the scheduler reports a failure, tokens are missing) removes it first, so that late messages of it meet nobody,
and then dispatches the call again behind the tokens that it has. A call of a model under `slack-v1` waits in a queue of
the model, which binds it to instances. Another that no instance can take is parked, and tried again, oldest first, when
one becomes usable or says that it has room (`policies.room`).
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count

from agents.channels.errors import ChannelError, MessageTooBigError
from agents.channels.keys import KeyPair
from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, Tokens
from agents.messages.to_scheduler import Cancel, LogitRules
from agents.tracing.trace_parent import trace_id
from control.gateway.api_error import bad_request, given_up, late_refused, unavailable
from control.gateway.attempt import Attempt
from control.gateway.call import Call
from control.gateway.instance_link import InstanceLink
from control.gateway.leg_parts import LegPart
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.published import Published
from control.gateway.settings import GatewaySettings
from control.gateway.slack_queue import SlackQueue
from policies.routing import ChosenRoute
from policies.routing_table import RoutedInstance

_log = logging.getLogger(__name__)

_RETRY_S = 0.1
"""A call is tried again so soon where instances are open, but have all failed it just now."""

_BUSY = {Failure.OVERLOADED, Failure.DRAINING, Failure.UNKNOWN_MODEL}
"""Not the request's fault, nor a loss: it never began there."""


class Dispatcher:
    def __init__(
        self,
        keys: KeyPair,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        refreshed: Callable[[Mapping[str, ModelEntry]], None],
    ) -> None:
        """`refreshed` is told the models whenever what can be used of them has changed."""
        self.models: dict[str, ModelEntry] = {}
        self._refreshed = refreshed
        self._keys = keys
        self._settings = settings
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._links: dict[str, InstanceLink] = {}
        self._retired: set[InstanceLink] = set()
        self._by_link: dict[InstanceLink, dict[int, Attempt]] = {}
        self._by_call: dict[Call, Attempt] = {}
        self._queues: dict[str, SlackQueue] = {}
        """By model, of those under `slack-v1`."""
        self._queues_of: dict[str, list[SlackQueue]] = {}
        """The same by instance."""
        self._full: frozenset[str] = frozenset()
        """Instances that can be used, but take nothing more for now."""
        self._parked: dict[str, dict[Call, asyncio.TimerHandle]] = {}
        """Calls that wait, by model, who waits longest first."""
        self._parked_until_s: dict[Call, float] = {}
        self._ids = count(1)
        metrics.parked_calls.set_function(self._count_waiting)

    def update(self, published: Published, models: dict[str, ModelEntry]) -> None:
        """Take a new table: dial who is new, retire who is gone. Requests under way are left alone."""
        for instance, link in list(self._links.items()):
            if published.addresses.get(instance) != link.address:
                del self._links[instance]
                self._retired.add(link)
                link.retire()
                self._close_if_idle(link)
        for instance, address in published.addresses.items():
            if instance not in self._links:
                link = InstanceLink(instance, address, self._keys, self._settings.channel, self)
                self._links[instance] = link
                self._by_link[link] = {}
        self.models = models
        left = self._update_queues()
        self._refresh()
        for call in left:
            self._dispatch(call)

    def _update_queues(self) -> list[Call]:
        """Have a queue for each model under `slack-v1`; calls that wait in another are to be dispatched anew."""
        models = {name: model for name, model in self.models.items() if model.is_by_slack}
        left = [call for name in self._queues.keys() - models.keys() for call in self._queues.pop(name).take_all()]
        self._queues_of = {}
        for name, model in models.items():
            queue = self._queues.get(name)
            if queue is None:
                queue = self._queues[name] = SlackQueue(model, self, self._settings.resume_wait_s)
            else:
                queue.update(model)
            for member in model.served.routing.members:
                self._queues_of.setdefault(member.id, []).append(queue)
        return left

    def bind(self, call: Call, chosen: ChosenRoute, predicted_s: float) -> None:
        first = self._links[chosen.members[0].id]
        first.pace.begin(call, predicted_s, self._loop.time(), is_alone=not first.prompts)
        if not self._send(call, chosen, self.models[call.asked.model].parts[chosen.route.id]):
            self._dispatch(call)

    def give_up(self, call: Call) -> None:
        call.finish(unavailable(f"No instance of `{call.asked.model}` can take the request now"))

    def refuse_late(self, call: Call, own_s: float, queue_s: float) -> None:
        asked = call.asked
        slo = self.models[asked.model].served.routing.objective
        is_too_long = slo is not None and 1000 * own_s > slo.first_token_ms(len(asked.prompt))
        self._metrics.late_refusals.labels(asked.model).inc()
        call.finish(late_refused(asked.model, own_s if is_too_long else None, queue_s))

    def ask_for_places(self, members: Iterable[RoutedInstance], slack_s: float, calls: int) -> None:
        for link in [self._links[member.id] for member in members]:
            with suppress(ChannelError):
                link.ask(slack_s, calls)

    def check_rules(self, model: ModelEntry, rules: LogitRules) -> None:
        """Raises ApiError while an instance that could get a request cannot choose tokens by its rules."""
        for member in model.served.routing.members:
            link = self._links.get(member.id)
            is_asked = not model.token_classes.isdisjoint(member.units_per_s)
            error = link.unable(rules) if link is not None and link.is_usable and is_asked else None
            if error is not None:
                raise error

    def start(self, call: Call) -> None:
        self._dispatch(call)

    def cancel(self, call: Call) -> None:
        """Free whatever is held for it anywhere."""
        self._unpark(call)
        self._parked_until_s.pop(call, None)
        if call.asked.model in self._queues:
            self._queues[call.asked.model].leave(call)
        attempt = self._by_call.get(call)
        if attempt is not None:
            self._drop(attempt)

    def close(self) -> None:
        for call in [*self._by_call, *(call for parked in self._parked.values() for call in parked)]:
            self.cancel(call)
        for queue in self._queues.values():
            queue.take_all()
        for link in (*self._links.values(), *self._retired):
            link.close()

    def changed(self, link: InstanceLink) -> None:
        metrics, instance = self._metrics, link.instance
        if self._links.get(instance) is not link:
            return
        metrics.instance_up.labels(instance).set(link.is_usable)
        if link.status is not None:
            metrics.instance_running.labels(instance).set(link.status.running)
            metrics.instance_waiting.labels(instance).set(link.status.waiting)
            metrics.instance_kv_free.labels(instance).set(link.status.kv_blocks_free)
            link.others = max(0, link.status.running + link.status.waiting - len(self._by_link[link]))
        if any(link.is_usable == (instance in model.unusable) for model in self.models.values()):
            self._refresh()
        else:
            self._note_room(link)
            self._note(link)

    def lost(self, link: InstanceLink, reason: str) -> None:
        for attempt in list(self._by_link.get(link, {}).values()):
            self._lose(attempt, link, "lost", reason)

    def heard(self, link: InstanceLink, message: Tokens | Finished | Failed) -> None:
        if isinstance(message, Tokens):
            attempts = self._by_link.get(link, {})
            for run in message.runs:
                attempt = attempts.get(run.attempt)
                if attempt is not None:
                    if attempt.first is not None:
                        self._note_begun(attempt)
                    ids, logprobs = attempt.take(run)
                    if ids:
                        attempt.call.deliver(ids, logprobs)
                    self._settle(attempt, link)
            return
        attempt = self._by_link.get(link, {}).get(message.attempt)
        if attempt is None:
            return
        if isinstance(message, Finished):
            attempt.call.cached_prompt_tokens = max(attempt.call.cached_prompt_tokens, message.cached_prompt_tokens)
            attempt.close_leg(message)
            link.pause_s = 0.0
            if attempt.first is link:
                self._note_begun(attempt)
            del self._by_link[link][message.attempt]  # what becomes of that instance matters no more
            self._settle(attempt, link)
            self._close_if_idle(link)
        elif message.failure.is_retryable:
            self._lose(attempt, link, message.failure.value, message.reason)
        else:
            self._drop(attempt)
            attempt.call.finish(given_up(message))

    def _settle(self, attempt: Attempt, link: InstanceLink) -> None:
        end = attempt.end
        if end is not None:
            self._drop(attempt)
            attempt.call.finish(end)
        elif attempt.is_broken:
            self._lose(attempt, link, "gap", "tokens are missing")

    def _dispatch(self, call: Call) -> None:
        if call.end is not None:
            return
        if len(call.generated) >= call.asked.max_tokens:  # only the word that it is over was lost
            call.finish(FinishReason.LENGTH)
            return
        queue, model = self._queues.get(call.asked.model), self.models.get(call.asked.model)
        if queue is not None:
            queue.join(call)
            return
        while model is not None:
            closed = model.closed | call.avoided if call.avoided else model.closed
            chosen = model.router.choose(closed, call.asked.request)
            if chosen is None:
                break
            if self._send(call, chosen, model.parts[chosen.route.id]):
                self._parked_until_s.pop(call, None)
                return
        self._park(call)

    def _send(self, call: Call, chosen: ChosenRoute, parts: Sequence[LegPart]) -> bool:
        """Begin an attempt; True when it is under way, or the call has ended."""
        rules = call.asked.sampling.rules
        if call.asked.must_obey and rules is not None:
            makers = [m for m, part in zip(chosen.members, parts, strict=True) if part.makes_tokens]
            unable = next((error for m in makers if (error := self._links[m.id].unable(rules)) is not None), None)
            if unable is not None:
                call.finish(unable)
                return True
        legs = [(next(self._ids), self._links[member.id]) for member in chosen.members]
        attempt = Attempt(call, legs, sum(not part.sends_to for part in parts))
        self._by_call[call], call.route = attempt, chosen.route
        legs[0][1].prompts += 1
        legs[0][1].places.use()
        for leg, link in legs:
            self._by_link[link][leg] = attempt
        hand_offs = [secrets.token_hex(16) for _ in chosen.route.edges]
        deadline_s = max(0.0, call.asked.deadline_at_s - self._loop.time())
        for part, (leg, link) in zip(parts, legs, strict=True):
            try:
                link.send(part.task(call, leg, [each for _, each in legs], hand_offs, deadline_s))
                link.room.use()
                self._note_room(link)
                self._note(link)
            except MessageTooBigError as error:
                self._drop(attempt)
                call.finish(bad_request(f"The request is too big for an instance: {error}", code="request_too_big"))
                return True
            except ChannelError as error:
                _log.warning("instance %s does not take %s: %s", link.instance, call.asked.request, error)
                self._drop(attempt)
                call.avoided.add(link.instance)
                self._rest(link)
                return False
        return True

    def _lose(self, attempt: Attempt, link: InstanceLink, cause: str, reason: str) -> None:
        """The attempt is over without a result: go on elsewhere."""
        call = attempt.call
        self._drop(attempt)
        about = {"request": call.asked.request, "instance": link.instance, "trace": trace_id(call.asked.trace)}
        _log.warning("lost: %s; %d tokens sent", reason, len(call.generated), extra=about)
        self._metrics.resumptions.labels(call.asked.model, cause).inc()
        if cause == Failure.OVERLOADED:
            link.room.refuse()
            self._note_room(link)
        else:
            suspects = attempt.links.values() if cause == Failure.HAND_OFF else (link,)  # either end's fault
            for each in suspects:
                call.avoided.add(each.instance)
                self._rest(each)
        call.losses += cause not in _BUSY
        if call.losses > self._settings.max_resumptions:
            call.finish(unavailable(f"The request failed on {call.losses} instances in a row; the last said: {reason}"))
        else:
            self._dispatch(call)

    def _drop(self, attempt: Attempt) -> None:
        """Forget an attempt; legs that still hold something free it."""
        del self._by_call[attempt.call]
        if attempt.first is not None:
            attempt.first.prompts -= 1
        for leg, link in attempt.links.items():
            # An instance that has done its part may be gone for good by now.
            self._by_link.get(link, {}).pop(leg, None)
        for leg, link in attempt.open.items():
            try:
                link.send(Cancel(leg))
            except ChannelError:
                _log.debug("instance %s cannot be told to cancel; it frees what it holds itself", link.instance)
        for link in attempt.links.values():
            self._close_if_idle(link)
            self._note(link)

    def _park(self, call: Call) -> None:
        now_s = self._loop.time()
        until_s = self._parked_until_s.setdefault(call, now_s + self._settings.resume_wait_s)
        if now_s >= until_s:
            del self._parked_until_s[call]
            call.finish(unavailable(f"No instance of `{call.asked.model}` can take the request now"))
            return
        call.avoided.clear()
        model = self.models.get(call.asked.model)
        again_s = min(until_s, now_s + _RETRY_S) if model is not None and model.is_open else until_s
        parked = self._parked.setdefault(call.asked.model, {})
        parked[call] = self._loop.call_at(again_s, self._retry, call)

    def _retry(self, call: Call) -> None:
        self._unpark(call)
        self._dispatch(call)

    def _unpark(self, call: Call) -> None:
        parked = self._parked.get(call.asked.model, {})
        handle = parked.pop(call, None)
        if handle is not None:
            handle.cancel()
            if not parked:
                del self._parked[call.asked.model]

    def _count_waiting(self) -> int:
        return sum(map(len, self._parked.values())) + sum(map(len, self._queues.values()))

    def _refresh(self) -> None:
        """Tell models what can be used, and try parked calls on it."""
        usable = {instance for instance, link in self._links.items() if link.is_usable}
        self._full = frozenset(instance for instance in usable if self._links[instance].room.is_full)
        for model in self.models.values():
            model.take_usable(usable, self._full)
        for link in self._links.values():
            self._note(link)
        self._wake()
        self._refreshed(self.models)

    def _note_room(self, link: InstanceLink) -> None:
        """It may be full now, or no more."""
        is_full = link.is_usable and link.room.is_full
        if is_full == (link.instance in self._full) or self._links.get(link.instance) is not link:
            return
        self._full ^= {link.instance}
        for model in self.models.values():
            model.take_full(self._full)
        if not is_full:
            self._wake()

    def _note(self, link: InstanceLink) -> None:
        """Tell queues what it could take now."""
        queues = self._queues_of.get(link.instance)
        if queues is not None and self._links.get(link.instance) is link:
            state = link.state(len(self._by_link[link]))
            for queue in queues:
                queue.note(link.instance, state)

    def _note_begun(self, attempt: Attempt) -> None:
        """Its prompt is computed."""
        link, attempt.first = attempt.first, None
        if link is not None:
            link.prompts -= 1
            link.pause_s = 0.0
            link.pace.end(attempt.call, self._loop.time())
            self._note(link)

    def _rest(self, link: InstanceLink) -> None:
        """Have queues send it nothing for a moment: what fails at once would have a place for everybody."""
        if not link.is_resting:
            self._loop.call_later(link.rest(), self._end_rest, link)
            self._note(link)

    def _end_rest(self, link: InstanceLink) -> None:
        link.is_resting = False
        self._note(link)

    def _wake(self) -> None:
        """Try parked calls of models that are open, each once."""
        for model in list(self._parked):
            entry, parked = self.models.get(model), self._parked[model]
            for _ in range(len(parked)):
                if entry is None or not entry.is_open or not parked:
                    break
                self._retry(next(iter(parked)))

    def _close_if_idle(self, link: InstanceLink) -> None:
        if link in self._retired and not self._by_link.get(link):
            self._retired.discard(link)
            self._by_link.pop(link, None)
            self._loop.call_soon(link.close)  # not from within its own event
            if link.instance not in self._links:
                self._metrics.forget_instance(link.instance)
