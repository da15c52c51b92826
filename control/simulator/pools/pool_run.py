"""Requests over pools by stage on a simulated clock, by the policies that gateways have.

    asked ─▶ pictures over encoders ─▶ all rows there: text instance chosen, rows pulled ─▶ prompt ─▶ tokens

Members come and go while it runs (`add`, `drain`): what they hold is finished first.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count

from control.simulator.pools.encoder import Encoder
from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.row_link import RowLink
from control.simulator.pools.text_instance import Step, TextInstance
from policies.pools.dispatches import PoolDispatch
from policies.pools.media_spread import behind_s, spread
from policies.pools.pending_work import PendingWork

Member = Encoder | TextInstance
_Batch = list[tuple[PoolRequest, int]]


class PoolRun:
    """Pools and what is under way in them. Without encoders, text instances encode by themselves (monoliths)."""

    def __init__(self, dispatch: PoolDispatch, link: RowLink, rates: Callable[[Member], float]) -> None:
        """`rates`: capacity of a member: image tokens/s of an encoder, prompt tokens/s of a text instance."""
        self.now_s = 0.0
        self._dispatch = dispatch
        self._link = link
        self._rates = rates
        self._encoders: dict[str, Encoder] = {}
        self._texts: dict[str, TextInstance] = {}
        self._draining: dict[str, Member] = {}
        self._encode_work, self._text_work = PendingWork({}), PendingWork({})
        self._turns = {"encoders": count(), "texts": count()}
        self._left: dict[int, int] = {}
        """id of a request → parts that are not encoded yet."""
        self._steps: dict[str, tuple[Step, float]] = {}
        """Text instance → step under way, and when it began."""
        self._waiting: list[PoolRequest] = []
        """Requests that came while no text instance was there."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.on_gone: Callable[[str], None] = lambda _: None
        """Called with the id of a drained member that holds nothing any more."""

    def at(self, when_s: float, event: Callable[[], None]) -> None:
        """Have something happen then."""
        heapq.heappush(self._events, (when_s, next(self._order), event))

    def run(self, requests: Iterable[PoolRequest], until_s: float) -> None:
        """Serve requests until then, or until nothing is left to happen; their times are written into them."""
        for request in requests:
            self.at(request.asked_s, partial(self._arrive, request))
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, event = heapq.heappop(self._events)
            event()

    def add(self, members: Sequence[Member]) -> None:
        """Have these serve from now on."""
        for member in members:
            if isinstance(member, Encoder):
                self._encoders[member.id] = member
            else:
                self._texts[member.id] = member
        self._update()
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._arrive(request)

    def drain(self, member: str) -> None:
        """Give the member nothing more. Raises KeyError for one that is not there."""
        self._draining[member] = self._encoders.pop(member) if member in self._encoders else self._texts.pop(member)
        self._update()
        self._leave(member)

    def load_of(self, member: str) -> int:
        """Tokens that wait at a member: who has least is drained first."""
        return (self._encoders.get(member) or self._texts[member]).pending_tokens

    def _update(self) -> None:
        self._encode_work.update({name: self._rates(each) for name, each in self._encoders.items()})
        self._text_work.update({name: self._rates(each) for name, each in self._texts.items()})

    def _arrive(self, request: PoolRequest) -> None:
        if not self._texts:
            self._waiting.append(request)
            return
        if not request.images or not self._encoders:
            chosen = self._text()
            self._send(request, chosen)
            self._prompt(request, chosen)
            return
        if not self._dispatch.late:
            request.text_instance = self._text().id
        parts = [part for image in request.images for part in image]
        self._left[id(request)] = len(parts)
        encoders = self._encoders_of(request, parts)
        parts_s = [self._encoders[e].times.seconds(tokens, 1) for e, tokens in zip(encoders, parts, strict=True)]
        later_s = behind_s(parts_s, encoders) if self._dispatch.by_load else [0.0] * len(parts)
        for encoder, tokens, each_s in zip(encoders, parts, later_s, strict=True):
            self._encoders[encoder].take(request, tokens, self.now_s, each_s)
        for encoder in dict.fromkeys(encoders):
            self._encode(self._encoders[encoder])

    def _encoders_of(self, request: PoolRequest, parts: Sequence[int]) -> list[str]:
        if self._dispatch.by_load:
            return spread([float(part) for part in parts], self._encode_work)
        names = list(self._encoders)
        chosen = []
        for image in request.images:
            chosen += [names[next(self._turns["encoders"]) % len(names)]] * len(image)
        return chosen

    def _encode(self, encoder: Encoder) -> None:
        if encoder.is_busy:
            return
        batch, seconds = encoder.begin()
        if batch:
            self.at(self.now_s + seconds, partial(self._encoded, encoder, batch))

    def _encoded(self, encoder: Encoder, batch: _Batch) -> None:
        encoder.end(batch)
        self._encode_work.done(encoder.id, sum(tokens for _, tokens in batch))
        for request, _ in batch:
            self._left[id(request)] -= 1
            if not self._left[id(request)]:
                del self._left[id(request)]
                self._pull(request)
        self._encode(encoder)
        self._leave(encoder.id)

    def _pull(self, request: PoolRequest) -> None:
        """All rows of the request are there."""
        request.encoded_s = self.now_s
        chosen = self._texts.get(request.text_instance) or self._text()
        self._send(request, chosen)
        at_s = self._link.pulled_s(request.encoders, chosen.id, self.now_s)
        self.at(at_s, partial(self._pulled, request, chosen))

    def _pulled(self, request: PoolRequest, chosen: TextInstance) -> None:
        request.pulled_s = self.now_s
        self._prompt(request, chosen)

    def _text(self) -> TextInstance:
        if self._dispatch.by_load:
            name = self._text_work.least()
            return self._texts[name or ""]
        names = list(self._texts)
        return self._texts[names[next(self._turns["texts"]) % len(names)]]

    def _send(self, request: PoolRequest, chosen: TextInstance) -> None:
        self._text_work.send(chosen.id, float(chosen.tokens_of(request)))
        chosen.expect(request)

    def _prompt(self, request: PoolRequest, chosen: TextInstance) -> None:
        chosen.take(request, self.now_s)
        under_way = self._steps.get(chosen.id)
        if under_way is None:
            self._step(chosen)
            return
        step, began_s = under_way
        seconds = step.cut(self.now_s - began_s)
        if seconds is not None:
            self.at(began_s + seconds, partial(self._stepped, chosen, step))

    def _step(self, instance: TextInstance) -> None:
        step = instance.begin()
        if step is not None:
            self._steps[instance.id] = step, self.now_s
            self.at(self.now_s + step.seconds, partial(self._stepped, instance, step))

    def _stepped(self, instance: TextInstance, step: Step) -> None:
        under_way = self._steps.get(instance.id)
        if under_way is None or under_way[0] is not step:
            return  # it was cut short, and this was its former end
        del self._steps[instance.id]
        for request in step.encoded:
            request.encoded_s = self.now_s
        for request in step.ended:
            request.first_token_s = self.now_s
        for request in instance.end(step):
            request.finish_s = self.now_s
        self._text_work.done(instance.id, step.prompt_tokens)
        self._step(instance)
        self._leave(instance.id)

    def _leave(self, member: str) -> None:
        """Let a drained member go that holds nothing."""
        own = self._draining.get(member)
        if own is None:
            return
        is_empty = own.pending_tokens == 0 if isinstance(own, Encoder) else own.is_idle
        if is_empty:
            del self._draining[member]
            self.on_gone(member)
