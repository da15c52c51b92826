"""Answers one request for text, from its checked form to the last byte."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

import msgspec

from agents.messages.to_gateway import FinishReason
from agents.tracing.trace_parent import TraceParent
from control.gateway.answer import Answer, TaskAnswer, merged
from control.gateway.api_error import LATE_REFUSED, ApiError, client_left, over_capacity
from control.gateway.body_budget import BodyHold
from control.gateway.call import Call, GenerationRequest, who_served
from control.gateway.counts import Counted, Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.event_stream import EventStream
from control.gateway.gate import Gate
from control.gateway.generation_params import GenerationParams
from control.gateway.holding import Charges, QueuePlace
from control.gateway.http import JSON, Receive, Send, answer
from control.gateway.media.intake import MediaIntake
from control.gateway.metrics import GatewayMetrics
from control.gateway.published import AccessKey
from control.gateway.reply import Choice, Piece, Reply, Usage, WholeReply, error_event
from control.gateway.request_accounts import Entry, RequestAccounts
from control.gateway.service_tier import ServiceTier, granted_priority, tier_of
from control.gateway.settings import GatewaySettings
from control.gateway.tasks.apps import Apps
from control.gateway.tasks.task_call import TaskCall
from control.gateway.tokenizer import Tokenizer
from control.gateway.wanted import WantedAnswer, wanted_answers
from policies.fair_order import Account
from policies.priority import Priority
from templates_lib.values.work import Unit

AnyReply = TypeVar("AnyReply", bound=WholeReply)
MakeReply = Callable[[str, str, int, Tokenizer, bool, ServiceTier | None, int], AnyReply]
"""Of the request's id, the model's name, Unix seconds, the tokenizer, whether usage is told, the tier, and how many
answers there are."""

_UNITS = {"ttft": Unit.PROMPT_TOKEN, "tpot": Unit.OUTPUT_TOKEN}
"""Objective → unit of the leg that decides it."""
_MOST_AT_ONCE = 16
"""Answers that are written on the loop."""
_FAULT = 500
"""Statuses of failures that are not the client's."""
TIMEOUT_SLACK_S = 10.0
"""Beyond a request's time-out, for its client to take in the error before the connection is cut."""


def cache_salt_of(key: AccessKey | None, given: str) -> str:
    """What tells the KV blocks that a request may begin with from those of others: its project, and what the client has
    `given`. A project cannot find out what another has sent by how much of a prompt is cached."""
    if key is None:
        return given
    return hashlib.blake2b(f"{key.project}\0{given}".encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """One HTTP request: its id, and where its answer goes."""

    request: str
    receive: Receive
    send: Send
    headers: tuple[tuple[bytes, bytes], ...]
    timeout: asyncio.Timeout
    """Time-out of the whole request."""
    trace: TraceParent
    body: BodyHold
    """Memory for what the client sent, until it is tokens."""
    explains: bool = False
    """Its client wants to know which instances answered."""
    is_retry: bool = False
    """Its client was refused it before."""
    key: AccessKey | None = None

    @property
    def account(self) -> Account:
        """Whose work it is; one for all where the gateway is open."""
        return ("", "") if self.key is None else self.key.account

    @property
    def ceiling(self) -> Priority:
        """The highest priority that its client may have."""
        return Priority.STANDARD if self.key is None else self.key.priority


class Generation:
    """Serves requests; one object for all of them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        gate: Gate,
        accounts: RequestAccounts,
        intake: MediaIntake,
        apps: Apps,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        counts: Counts,
    ) -> None:
        self._dispatcher = dispatcher
        self._gate = gate
        self._accounts = accounts
        self._intake = intake
        self._apps = apps
        self._settings = settings
        self._metrics = metrics
        self._counts = counts
        self._loop = asyncio.get_running_loop()

    async def serve(self, params: GenerationParams, exchange: HttpExchange, make_reply: MakeReply[Reply]) -> None:
        """Raises ApiError as long as nothing has been sent."""

        def opened(reply: Reply, to: HttpExchange) -> EventStream | None:
            return EventStream(to.send, to.headers, reply) if params.is_stream else None

        await self._serve(params, exchange, make_reply, opened)

    async def serve_whole(
        self, params: GenerationParams, exchange: HttpExchange, make_reply: MakeReply[WholeReply]
    ) -> None:
        """The same for answers that are never streamed."""
        await self._serve(params, exchange, make_reply, lambda _reply, _to: None)

    async def _serve(
        self,
        params: GenerationParams,
        exchange: HttpExchange,
        make_reply: MakeReply[AnyReply],
        opened: Callable[[AnyReply, HttpExchange], EventStream | None],
    ) -> None:
        started_s, name = time.monotonic(), params.model
        params, of_app = self._apps.resolve(params, self._dispatcher.models)
        media = await self._intake.read(params, self._dispatcher.models, exchange.body)
        wanted = await wanted_answers(params, self._dispatcher.models, media, is_task=of_app is not None)
        if media is None:  # pictures and sounds stay until they are encoded
            exchange.body.release()
        task = await self._apps.call(of_app, media, wanted[0])
        priority = granted_priority(params.service_tier, exchange.ceiling)
        entries, booked = await self._book(wanted, exchange, priority)
        model = wanted[0].model
        reply = make_reply(
            exchange.request.removeprefix("req-"),
            name,
            int(time.time()),
            model.tokenizer,
            params.with_usage,
            tier_of(priority) if params.service_tier else None,
            len(wanted),
        )
        if entries[-1].headers:
            exchange = replace(exchange, headers=(*exchange.headers, *entries[-1].headers))
        events = opened(reply, exchange)
        gone: asyncio.Future[None] = self._loop.create_future()
        watch = self._loop.create_task(self._watch(exchange.receive, model.id, gone))
        self._count_open(len(wanted))
        try:
            charges = await self._turns(booked, entries, exchange, gone, events)
            was_held = [isinstance(each, QueuePlace) for each in booked]
            calls = [
                Call(self._asked(params, exchange, one, started_s, priority, held, task))
                for one, held in zip(wanted, was_held, strict=True)
            ]
            gone.add_done_callback(lambda _: self._end(calls, client_left()))
            streams = [one.model.tokenizer.open_stream(shows_special=reply.shows_special) for one in wanted]
            least = params.sampling.min_tokens
            kind = Answer if task is None or task.is_plain else TaskAnswer
            answers = [
                kind(call, stream, params.stop, least, self._dispatcher, started_s)
                for call, stream in zip(calls, streams, strict=True)
            ]
            deadline = self._loop.call_later(self._settings.request_timeout_s, self._end, calls, _too_long())
            try:
                self._start(calls)
                if events is not None:
                    told = calls if exchange.explains else ()
                    await self._stream(wanted, answers, events, params.with_usage, told)
                else:
                    await self._whole(wanted, answers, reply, exchange)
            finally:
                deadline.cancel()
                for call in calls:
                    self._dispatcher.cancel(call)
                for books in zip(answers, calls, charges, entries, strict=True):
                    self._close_books(*books)
        except ApiError as error:
            if events is None or not events.has_status:
                raise
            await events.fail(error_event(error))
        finally:
            watch.cancel()
            self._count_open(-len(wanted))

    async def _book(
        self, wanted: list[WantedAnswer], exchange: HttpExchange, priority: Priority
    ) -> tuple[list[Entry], list[Charges | QueuePlace]]:
        """Open the accounts of all answers and admit them, or none. Raises ApiError."""
        rules, pooling = wanted[0].sampling.rules if wanted[0].must_obey else None, wanted[0].pooling
        if rules is not None or pooling is not None:
            for model in {one.model.id: one.model for one in wanted}.values():
                self._dispatcher.check_able(model, rules, pooling)
        entries = await self._accounts.open(wanted, exchange.key, is_retry=exchange.is_retry)
        try:
            open_calls = self._counts.total(Counted.OPEN_CALLS)
            if open_calls + len(wanted) > self._settings.max_open_calls:
                raise over_capacity(f"{open_calls} requests are being answered", 1.0)
            return entries, self._gate.enter(wanted, exchange.account, priority)
        except ApiError:
            for entry in entries:
                self._accounts.refuse(entry)
            raise

    def _start(self, calls: list[Call]) -> None:
        for call in calls:
            self._metrics.prompt_tokens.labels(call.asked.model).inc(len(call.asked.prompt))
            self._dispatcher.start(call)

    def _asked(
        self,
        params: GenerationParams,
        exchange: HttpExchange,
        wanted: WantedAnswer,
        arrived_s: float,
        priority: Priority,
        was_held: bool,
        task: TaskCall | None,
    ) -> GenerationRequest:
        max_tokens, model = wanted.max_tokens, wanted.model
        if was_held and params.max_tokens is None:  # who serves it now may have less room than its model's context
            max_tokens = min(max_tokens, max(1, model.served.context_tokens - len(wanted.prompt)))
        deadline_s, key = self._loop.time() + self._settings.request_timeout_s, exchange.key
        return GenerationRequest(
            exchange.request,
            model.id,
            wanted.prompt,
            wanted.sampling,
            max_tokens,
            wanted.stop_ids,
            deadline_s,
            str(exchange.trace),
            arrived_s,
            exchange.account,
            priority,
            was_held,
            wanted.must_obey,
            cache_salt_of(key, params.cache_salt),
            task,
            wanted.pooling,
        )

    async def _turns(
        self,
        booked: list[Charges | QueuePlace],
        entries: list[Entry],
        exchange: HttpExchange,
        gone: "asyncio.Future[None]",
        events: EventStream | None,
    ) -> list[Charges]:
        """Wait until all answers may be begun. Raises ApiError when that takes too long, or nobody waits any more."""
        direct = [each for each in booked if not isinstance(each, QueuePlace)]
        if len(direct) == len(booked):
            return direct
        exchange.timeout.reschedule(None)  # places in the queue have a time-out of their own
        try:
            charges = [
                each if not isinstance(each, QueuePlace) else await self._turn(each, gone, events) for each in booked
            ]
        except BaseException:
            for entry, each in zip(entries, booked, strict=True):
                self._accounts.refuse(entry)
                self._gate.leave(each)
            raise
        exchange.timeout.reschedule(self._loop.time() + self._settings.request_timeout_s + TIMEOUT_SLACK_S)
        return charges

    async def _turn(self, place: QueuePlace, gone: "asyncio.Future[None]", events: EventStream | None) -> Charges:
        while not (place.turn.done() or gone.done()):
            pause_s = None if events is None else self._settings.hold_comment_s
            await asyncio.wait((place.turn, gone), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            if events is not None and not place.turn.done():
                await events.comment(b"waiting for an instance")
        if gone.done():
            raise client_left()
        return place.turn.result()

    async def _whole(
        self, wanted: list[WantedAnswer], answers: list[Answer], reply: WholeReply, exchange: HttpExchange
    ) -> None:
        pieces: list[list[Piece]] = [[] for _ in answers]
        if len(answers) == 1:
            pieces[0] = [piece async for piece in answers[0].pieces()]
        else:
            async with aclosing(merged(answers)) as coming:
                async for choice, piece in coming:
                    if piece is not None:
                        pieces[choice].append(piece)
        choices = [Choice(own, answer_.finish_reason) for own, answer_ in zip(pieces, answers, strict=True)]
        usage = _usage(wanted, answers)
        # Of thousands of vectors it is megabytes, for which no other request waits.
        is_large = len(choices) > _MOST_AT_ONCE
        body = await asyncio.to_thread(reply.whole, choices, usage) if is_large else reply.whole(choices, usage)
        await answer(exchange.send, 200, body, (JSON, *exchange.headers))

    async def _stream(
        self,
        wanted: list[WantedAnswer],
        answers: list[Answer],
        events: EventStream,
        with_usage: bool,
        told: Sequence[Call],
    ) -> None:
        """`told`: calls of which the client is told who served them."""
        last, reply = b"", events.reply
        if len(answers) == 1:
            async for piece in answers[0].pieces():
                await events.piece(piece, 0)
            last = reply.end(0, answers[0].finish_reason)
        else:
            async with aclosing(merged(answers)) as coming:
                async for choice, some in coming:
                    if some is not None:
                        await events.piece(some, choice)
                    else:
                        await events.event(reply.end(choice, answers[choice].finish_reason))
        if told:  # a comment, which clients of OpenAI's API read over
            await events.comment(b"medley " + msgspec.json.encode(who_served(told)))
        await events.end(last + reply.closing(_usage(wanted, answers) if with_usage else None))

    async def _watch(self, receive: Receive, model: str, gone: "asyncio.Future[None]") -> None:
        """Says when the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._metrics.disconnects.labels(model).inc()
        gone.set_result(None)

    def _end(self, calls: list[Call], error: ApiError) -> None:
        for call in calls:
            self._dispatcher.cancel(call)
            call.finish(error)

    def _count_open(self, more: int) -> None:
        self._counts.add(Counted.OPEN_CALLS, more)
        self._metrics.open_calls.inc(more)

    def _close_books(self, answer_: Answer, call: Call, charges: Charges, entry: Entry) -> None:
        """Give back what was booked and not done; count what it took."""
        metrics, model, made = self._metrics, call.asked.model, len(call.generated)
        self._gate.settle(charges, made)
        if isinstance(call.end, ApiError) and call.end.code == LATE_REFUSED:
            self._accounts.refuse(entry)
            self._judge(call, entry, {"ttft": inf})
            return
        is_whole = isinstance(call.end, FinishReason)
        has_left = isinstance(call.end, ApiError) and call.end.status == client_left().status
        got = answer_.usage.completion_tokens  # an instance may have made more, behind a stop string
        self._accounts.close(entry, got, is_whole=is_whole, is_length_known=is_whole or (has_left and got > 0))
        metrics.output_tokens.labels(model).inc(made)
        now_s = time.monotonic()
        if answer_.first_token_s is not None:
            ttft_s = answer_.first_token_s - answer_.started_s
            metrics.first_token_s.labels(model).observe(ttft_s)
            took_s = {"ttft": ttft_s}
            if made > 1:
                took_s["tpot"] = (now_s - answer_.first_token_s) / (made - 1)
                metrics.per_token_s.labels(model).observe(took_s["tpot"])
            self._judge(call, entry, took_s)
        elif isinstance(call.end, ApiError) and call.end.status >= _FAULT:
            self._judge(call, entry, {"ttft": inf})
        if is_whole:
            metrics.request_s.labels(model).observe(now_s - answer_.started_s)

    def _judge(self, call: Call, entry: Entry, took_s: dict[str, float]) -> None:
        """Count of each objective whether it was kept, for the work class that decides it, where a route was found at
        all; a request that is refused as late counts for those of all routes, none of which had room for it."""
        model = self._dispatcher.models.get(call.asked.model)
        slo = None if model is None else model.served.routing.objective
        if model is None or slo is None:
            return
        limits_ms = {"ttft": slo.first_token_ms(len(call.asked.prompt)), "tpot": slo.tpot_ms}
        kept = {objective: 1000 * seconds <= limits_ms[objective] for objective, seconds in took_s.items()}
        is_refused = isinstance(call.end, ApiError) and call.end.code == LATE_REFUSED
        routes = model.served.routing.routes if is_refused and call.route is None else (call.route,)
        for objective, is_kept in kept.items():
            for work_class in {"" if route is None else route.work_class_of(_UNITS[objective]) for route in routes}:
                self._metrics.judged.labels(call.asked.model, work_class, objective, str(is_kept).lower()).inc()
        self._accounts.judge(entry, is_in_time=all(kept.values()))


def _usage(wanted: list[WantedAnswer], answers: list[Answer]) -> Usage:
    """Tokens of all answers, and of each prompt once."""
    usages = [
        answer_.usage if one.is_first else Usage(0, answer_.usage.completion_tokens, 0)
        for one, answer_ in zip(wanted, answers, strict=True)
    ]
    return sum(usages, Usage(0, 0, 0))


def _too_long() -> ApiError:
    return ApiError(504, "server_error", "The answer took too long", code="timeout")
