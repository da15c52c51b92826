"""Sends calls to instances, takes in what comes, and goes on elsewhere when an instance fails.

Theory of operation: a call has at most one attempt at a time. Whatever ends an attempt without a result (the link is
lost, the scheduler reports a failure, tokens are missing) removes it first, so that late messages of it meet nobody,
and then dispatches the call again behind the tokens that it has. A call of a model under `slack-v1` waits in a queue of
the model, which binds it to instances. A call of an app has its pictures and sounds encoded first (`Encoding`), and
again when its decoder is lost; sound and pictures are made of text by `Making`. Another that no instance can take is
parked, and tried again, oldest first, when one becomes usable or says that it has room (`policies.room`).
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count

from agents.channels.address import Address
from agents.channels.errors import ChannelError, MessageTooBigError
from agents.channels.keys import KeyPair
from agents.messages.component_work import Encoded, Made
from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, Tokens
from agents.messages.to_scheduler import Cancel, LogitRules, Pooling
from agents.tracing.trace_parent import trace_id
from control.gateway.api_error import bad_request, given_up, late_refused, unavailable
from control.gateway.app_calls import AppCalls
from control.gateway.attempt import Attempt
from control.gateway.call import Call
from control.gateway.counts import Counts
from control.gateway.encoding import Encoding
from control.gateway.instance_link import InstanceLink
from control.gateway.leg_parts import LegPart, prompt_alone
from control.gateway.links_to_come import LinksToCome
from control.gateway.making.coming_pieces import PieceBudget
from control.gateway.making.making import Making
from control.gateway.making.making_call import MakingCall
from control.gateway.media.preprocessor import Preprocessor
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.parking import Parking
from control.gateway.pools import Pools
from control.gateway.published import Published
from control.gateway.settings import GatewaySettings
from control.gateway.slack_queues import SlackQueues
from policies.routing import ChosenRoute
from policies.routing_table import RoutedInstance

_log = logging.getLogger(__name__)

_BUSY = {Failure.OVERLOADED, Failure.DRAINING, Failure.UNKNOWN_MODEL}
"""Not the request's fault, nor a loss: it never began there."""


class Dispatcher:
    def __init__(
        self,
        keys: KeyPair,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        preprocessor: Preprocessor,
        refreshed: Callable[[Mapping[str, ModelEntry]], None],
        counts: Counts,
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
        self._to_come = LinksToCome()
        self._by_link: dict[InstanceLink, dict[int, Attempt]] = {}
        self._by_call: dict[Call, Attempt] = {}
        self._queues = SlackQueues(self, settings.resume_wait_s)
        self._full: frozenset[str] = frozenset()
        """Instances that can be used, but take nothing more for now."""
        self._pools = Pools(metrics)
        self._parking = Parking(settings.resume_wait_s, self._dispatch, self._is_open)
        self._ids = count(1)
        links = self._links.get
        about = links, self._note_loss, self._note_use, self._close_if_idle
        self._encoding = Encoding(preprocessor, self._ids, *about, metrics)
        self._apps = AppCalls(
            self._encoding,
            self._pools,
            self._links,
            self._model_of,
            self._send,
            self._parking.sent,
            self._dispatch,
        )
        pieces = PieceBudget(settings.max_pieces_bytes, counts)
        self.making = Making(self._ids, settings.resume_wait_s, self._model_of, *about, pieces)
        metrics.parked_calls.set_function(self._count_waiting)

    def update(self, published: Published, models: dict[str, ModelEntry]) -> None:
        """Take a new table: dial who is new, retire who is gone. Requests under way are left alone."""
        self._to_come.keep(published.addresses)
        for instance, link in list(self._links.items()):
            if published.addresses.get(instance) != link.address:
                del self._links[instance]
                self._retire(link)
        for instance, address in published.addresses.items():
            if instance not in self._links:
                self._take(self._link_to(instance, address))
        self.models = models
        self._pools.update(models.values())
        left = self._queues.update(models)
        self._refresh()
        for call in left:
            self._dispatch(call)

    @property
    def has_all(self) -> bool:
        """Every instance of the table can be used."""
        return all(link.is_usable for link in self._links.values())

    def take_keys(self, keys: KeyPair) -> None:
        """Be known by other keys: to each instance as soon as it lets them in, and by those before until then."""
        self._keys = keys
        self._to_come.replace(self._link_to(link.instance, link.address) for link in self._links.values())

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

    def check_able(self, model: ModelEntry, rules: LogitRules | None, pooling: Pooling | None = None) -> None:
        """Raises ApiError while an instance that could get a request cannot do what it asks, as of
        `InstanceLink.unable`."""
        for member in model.served.routing.members:
            link = self._links.get(member.id)
            is_asked = not model.token_classes.isdisjoint(member.units_per_s)
            error = link.unable(rules, pooling) if link is not None and link.is_usable and is_asked else None
            if error is not None:
                raise error

    def start(self, call: Call) -> None:
        self._dispatch(call)

    def cancel(self, call: Call) -> None:
        """Free whatever is held for it anywhere."""
        self._parking.forget(call)
        self._encoding.cancel(call)
        self._queues.leave(call)
        attempt = self._by_call.get(call)
        if attempt is not None:
            self._drop(attempt)

    def close(self) -> None:
        for call in [*self._by_call, *self._parking]:
            self.cancel(call)
        self._encoding.close()
        self._queues.update({})
        for link in (*self._links.values(), *self._retired):
            link.close()
        self._to_come.close()

    def changed(self, link: InstanceLink) -> None:
        metrics, instance = self._metrics, link.instance
        if self._to_come.taken(link):
            former = self._links[instance]
            self._take(link)
            self._retire(former)
            if not self._to_come:
                _log.info("every instance lets this gateway in by its new key")
        if self._links.get(instance) is not link:
            return
        metrics.instance_up.labels(instance).set(link.is_usable)
        if link.status is not None:
            metrics.instance_running.labels(instance).set(link.status.running)
            metrics.instance_waiting.labels(instance).set(link.status.waiting)
            metrics.instance_kv_free.labels(instance).set(link.status.kv_blocks_free)
            self._pools.pending.told(instance, link.status.others_units or 0)
            link.others = max(0, link.status.running + link.status.waiting - len(self._by_link[link]))
        if any(link.is_usable == (instance in model.unusable) for model in self.models.values()):
            self._refresh()
        else:
            self._note_room(link)
            self._note(link)

    def lost(self, link: InstanceLink, reason: str) -> None:
        self._encoding.lose(link, reason)
        self.making.lose(link, reason)
        for attempt in list(self._by_link.get(link, {}).values()):
            self._lose(attempt, link, "lost", reason)

    def heard(self, link: InstanceLink, message: Tokens | Finished | Failed | Encoded | Made) -> None:
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
        if attempt is None or isinstance(message, Encoded | Made):
            self._heard_of_parts(link, message)
            return
        if isinstance(message, Finished):
            attempt.call.cached_prompt_tokens = max(attempt.call.cached_prompt_tokens, message.cached_prompt_tokens)
            attempt.call.state = message.state
            attempt.close_leg(message)
            link.pause_s = 0.0
            if attempt.first is link:
                self._note_begun(attempt)
            del self._by_link[link][message.attempt]  # what becomes of that instance matters no more
            self._note(link)  # what it held there is free
            self._settle(attempt, link)
            self._close_if_idle(link)
        elif message.failure.is_retryable:
            self._lose(attempt, link, message.failure.value, message.reason)
        else:
            self._drop(attempt)
            attempt.call.finish(given_up(message))

    def _heard_of_parts(self, link: InstanceLink, message: Finished | Failed | Encoded | Made) -> None:
        """Hand on what is of a unit that is encoded, or an answer that is made; else it is late, and of nobody."""
        if isinstance(message, Encoded | Failed):
            self._encoding.heard(link, message)
        if isinstance(message, Made | Failed):
            self.making.heard(link, message)

    def _model_of(self, name: str) -> ModelEntry | None:
        return self.models.get(name)

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
        queue, model = self._queues.by_model.get(call.asked.model), self.models.get(call.asked.model)
        if queue is not None:
            queue.join(call)
            return
        while model is not None:
            closed = model.closed | call.avoided if call.avoided else model.closed
            chosen = model.router.choose(closed, call.asked.request)
            if chosen is None:
                break
            if self._begin(call, model, chosen):
                self._parking.sent(call)
                return
        self._parking.park(call)

    def _begin(self, call: Call, model: ModelEntry, chosen: ChosenRoute) -> bool:
        """Send it, or have its parts encoded first; False: somebody of the route does not take it, and is avoided."""
        task = call.asked.task
        if task is None:
            return self._send(call, chosen, model.parts[chosen.route.id])
        return self._apps.begin(call, task, model, chosen)

    def _note_use(self, link: InstanceLink) -> None:
        link.room.use()
        self._note_room(link)
        self._note(link)

    def _send(self, call: Call, chosen: ChosenRoute, parts: Sequence[LegPart]) -> bool:
        """Begin an attempt; True when it is under way, or the call has ended."""
        members: Sequence[RoutedInstance] = chosen.members
        pooling = call.asked.pooling
        if pooling is not None:
            members, parts = prompt_alone(members, parts)
        rules = call.asked.sampling.rules if call.asked.must_obey else None
        if rules is not None or pooling is not None:
            makers = [self._links[m.id] for m, part in zip(members, parts, strict=True) if part.makes_tokens]
            unable = next((error for m in makers if (error := m.unable(rules, pooling)) is not None), None)
            if unable is not None:
                call.finish(unable)
                return True
        legs = [(next(self._ids), self._links[member.id]) for member in members]
        attempt = Attempt(call, legs, sum(not part.sends_to for part in parts))
        self._by_call[call], call.route = attempt, chosen.route
        legs[0][1].prompts += 1
        legs[0][1].places.use()
        self._pools.begin(attempt)
        for leg, link in legs:
            self._by_link[link][leg] = attempt
        hand_offs = [secrets.token_hex(16) for _ in chosen.route.edges]
        now_s = self._loop.time()
        deadline_s = max(0.0, call.asked.deadline_at_s - now_s)
        later_s = self._pools.later_s(attempt, self.models.get(call.asked.model), now_s)
        for part, (leg, link) in zip(parts, legs, strict=True):
            try:
                link.send(part.task(call, leg, [each for _, each in legs], hand_offs, deadline_s, later_s))
                self._note_use(link)
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
        call.rows.clear()  # taken there, or of no use: they are made again, or found where they are kept
        self._encoding.withdraw(call)
        # Of a hand-off either end may be at fault.
        others = [each for each in attempt.links.values() if each is not link] if cause == Failure.HAND_OFF else []
        self._note_loss(call, link, cause, reason, others)
        self._dispatch(call)

    def _note_loss(
        self,
        call: Call | MakingCall,
        link: InstanceLink,
        cause: str,
        reason: str,
        others: Iterable[InstanceLink] = (),
    ) -> None:
        """`others`: who may be at fault, too. Ends the call where it has lost too many."""
        about = {"request": call.asked.request, "instance": link.instance, "trace": trace_id(call.asked.trace)}
        _log.warning("lost: %s; %d tokens or pieces sent", reason, call.sent, extra=about)
        self._metrics.resumptions.labels(call.asked.model, cause).inc()
        is_news = link.instance not in call.avoided  # an executor that dies loses all of the call's units, once
        if cause == Failure.OVERLOADED:
            link.room.refuse()
            self._note_room(link)
        else:
            for each in (link, *others):
                call.avoided.add(each.instance)
                self._rest(each)
        call.losses += is_news and cause not in _BUSY
        if call.losses > self._settings.max_resumptions:
            why = f"The request failed on {call.losses} instances in a row; the last said: {reason}"
            call.finish(unavailable(why))

    def _drop(self, attempt: Attempt) -> None:
        """Forget an attempt; legs that still hold something free it."""
        del self._by_call[attempt.call]
        self._pools.end(attempt)
        if attempt.first is not None:
            attempt.first.prompts -= 1
        for leg, link in attempt.links.items():
            # An instance that has done its part may be gone for good by now.
            self._by_link.get(link, {}).pop(leg, None)
        for leg, link in list(attempt.open.items()):
            attempt.release(leg)
            try:
                link.send(Cancel(leg))
            except ChannelError:
                _log.debug("instance %s cannot be told to cancel; it frees what it holds itself", link.instance)
        for link in attempt.links.values():
            self._close_if_idle(link)
            self._note(link)

    def _count_waiting(self) -> int:
        return len(self._parking) + len(self._queues) + len(self.making)

    def _is_open(self, name: str) -> bool:
        model = self.models.get(name)
        return model is not None and model.is_open

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

    def _wake(self) -> None:
        """Somebody can be sent more."""
        self._parking.wake()
        self.making.wake()

    def _note(self, link: InstanceLink) -> None:
        """Tell queues what it could take now."""
        if self._links.get(link.instance) is link:
            self._queues.note(link.instance, lambda: link.state(len(self._by_link[link])))

    def _note_begun(self, attempt: Attempt) -> None:
        """Its prompt is computed."""
        self._pools.end(attempt)
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

    def _link_to(self, instance: str, address: Address) -> InstanceLink:
        return InstanceLink(instance, address, self._keys, self._settings.channel, self)

    def _take(self, link: InstanceLink) -> None:
        self._links[link.instance] = link
        self._by_link[link] = {}

    def _retire(self, link: InstanceLink) -> None:
        self._retired.add(link)
        link.retire()
        self._close_if_idle(link)

    def _close_if_idle(self, link: InstanceLink) -> None:
        held = self._by_link.get(link) or self._encoding.held(link) or self.making.held(link)
        if link in self._retired and not held:
            self._retired.discard(link)
            self._by_link.pop(link, None)
            self._loop.call_soon(link.close)  # not from within its own event
            if link.instance not in self._links:
                self._metrics.forget_instance(link.instance)
