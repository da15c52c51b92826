"""Answers one request of /v1/completions or /v1/chat/completions, from its body to the last byte."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from agents.messages.to_gateway import FinishReason
from agents.tracing.trace_parent import TraceParent
from control.gateway.answer import Answer
from control.gateway.api_error import (
    LATE_REFUSED,
    ApiError,
    bad_request,
    client_left,
    over_capacity,
    unknown_model,
    unsupported,
)
from control.gateway.call import Call, GenerationRequest
from control.gateway.chat_template import ChatTemplateError
from control.gateway.dispatcher import Dispatcher
from control.gateway.event_stream import EventStream
from control.gateway.gate import Gate
from control.gateway.generation_params import GenerationParams
from control.gateway.holding import Charges, QueuePlace
from control.gateway.http import JSON, Receive, Send, answer
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.published import AccessKey
from control.gateway.reply import Reply, error_event
from control.gateway.request_accounts import Entry, RequestAccounts
from control.gateway.service_tier import ServiceTier, granted_priority, tier_of
from control.gateway.settings import GatewaySettings
from control.gateway.tokenizer import Tokenizer
from policies.priority import Priority
from templates_lib.values.work import Unit

MakeReply = Callable[[str, str, int, Tokenizer, bool, ServiceTier | None], Reply]


_UNITS = {"ttft": Unit.PROMPT_TOKEN, "tpot": Unit.OUTPUT_TOKEN}
"""Objective → unit of the leg that decides it."""
_FAULT = 500
"""Statuses of failures that are not the client's."""
TIMEOUT_SLACK_S = 10.0
"""Beyond a request's time-out, for its client to take in the error before the connection is cut."""


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
    is_retry: bool = False
    """Its client was refused it before."""
    key: AccessKey | None = None

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
        settings: GatewaySettings,
        metrics: GatewayMetrics,
    ) -> None:
        self._dispatcher = dispatcher
        self._gate = gate
        self._accounts = accounts
        self._settings = settings
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._open = 0

    async def serve(self, params: GenerationParams, exchange: HttpExchange, make_reply: MakeReply) -> None:
        """Raises ApiError as long as nothing has been sent."""
        started_s = time.monotonic()
        model = self._model(params)
        prompt = await self._tokens(params, model)
        model = self._for_length(model, len(prompt))
        max_tokens = self._room(params, model, prompt)
        entry = self._accounts.open(model, exchange.key, len(prompt), max_tokens, is_retry=exchange.is_retry)
        priority = granted_priority(params.service_tier, exchange.ceiling)
        try:
            charges = self._admit(model, len(prompt), max_tokens, priority)
        except ApiError:
            self._accounts.refuse(entry)
            raise
        tier = tier_of(priority) if params.service_tier else None
        reply = make_reply(
            exchange.request.removeprefix("req-"),
            params.model,
            int(time.time()),
            model.tokenizer,
            params.with_usage,
            tier,
        )
        exchange = replace(exchange, headers=(*exchange.headers, *entry.headers))
        events = EventStream(exchange.send, exchange.headers, reply) if params.is_stream else None
        gone: asyncio.Future[None] = self._loop.create_future()
        watch = self._loop.create_task(self._watch(exchange.receive, model.id, gone))
        self._count_open(1)
        try:
            was_held = isinstance(charges, QueuePlace)
            if isinstance(charges, QueuePlace):
                charges = await self._hold(charges, entry, exchange, gone, events)
                if params.max_tokens is None:  # who serves it now may have less room than its model's context
                    max_tokens = min(max_tokens, max(1, model.served.context_tokens - len(prompt)))
            call = Call(self._asked(params, exchange, model, prompt, max_tokens, started_s, priority, was_held))
            gone.add_done_callback(lambda _: self._end(call, client_left()))
            answer_ = Answer(call, model.tokenizer, params.stop, self._dispatcher, started_s)
            deadline = self._loop.call_later(self._settings.request_timeout_s, self._end, call, _too_long())
            self._metrics.prompt_tokens.labels(model.id).inc(len(prompt))
            try:
                self._dispatcher.start(call)
                if events is not None:
                    await self._stream(answer_, reply, events, params.with_usage)
                else:
                    await self._whole(answer_, reply, exchange)
            finally:
                deadline.cancel()
                self._dispatcher.cancel(call)
                self._close_books(answer_, call, charges, entry)
        except ApiError as error:
            if events is None or not events.has_status:
                raise
            await events.fail(error_event(error))
        finally:
            watch.cancel()
            self._count_open(-1)

    def _asked(
        self,
        params: GenerationParams,
        exchange: HttpExchange,
        model: ModelEntry,
        prompt: tuple[int, ...],
        max_tokens: int,
        arrived_s: float,
        priority: Priority,
        was_held: bool,
    ) -> GenerationRequest:
        stop_ids = () if params.ignores_eos else model.tokenizer.stop_ids
        deadline_s, key = self._loop.time() + self._settings.request_timeout_s, exchange.key
        return GenerationRequest(
            exchange.request,
            model.id,
            prompt,
            params.sampling.of_model(model.tokenizer.sampling_defaults),
            max_tokens,
            stop_ids,
            deadline_s,
            str(exchange.trace),
            arrived_s,
            ("", "") if key is None else (key.project, key.id),
            priority,
            was_held,
        )

    def _model(self, params: GenerationParams) -> ModelEntry:
        model = self._dispatcher.models.get(params.model)
        if model is None:
            raise unknown_model(params.model, self._dispatcher.models)
        top, most = params.sampling.top_logprobs, model.served.max_top_logprobs
        if top is not None and (most is None or top > most):
            why = "the engine of this model has none" if most is None else f"at most {most} alternatives can be had"
            raise unsupported("logprobs", why)
        return model

    async def _tokens(self, params: GenerationParams, model: ModelEntry) -> tuple[int, ...]:
        """Raises ApiError for what cannot be a prompt."""
        prompt, tokenizer = params.prompt, model.tokenizer
        try:
            if isinstance(prompt, tuple):
                tokens = prompt
            elif isinstance(prompt, str):
                tokens = await model.encoder.encode(prompt, is_rendered=False)
            else:
                tokens = await model.encoder.encode(tokenizer.render(prompt), is_rendered=True)
        except ChatTemplateError as error:
            raise bad_request(f"The conversation does not fit the model's template: {error}", "messages") from None
        if not tokens:
            raise bad_request("The prompt is empty", "prompt")
        size = tokenizer.vocabulary_size
        if isinstance(prompt, tuple) and not all(0 <= token < size for token in tokens):
            raise bad_request(f"Tokens of the prompt must be 0 to {size - 1}", "prompt")
        return tokens

    def _for_length(self, model: ModelEntry, prompt_tokens: int) -> ModelEntry:
        """The part of a model that has instances for prompts of this length."""
        served = model.served
        if served.longer and prompt_tokens > served.max_prompt_tokens:
            return self._dispatcher.models.get(served.longer, model)
        return model

    def _room(self, params: GenerationParams, model: ModelEntry, prompt: tuple[int, ...]) -> int:
        """Tokens that the answer may have."""
        context, param = model.served.context_tokens, "messages" if isinstance(params.prompt, list) else "prompt"
        room, most = context - len(prompt), model.served.most_prompt_tokens
        if most < len(prompt) < context:
            raise bad_request(
                f"This model's instances have room for prompts of {most} tokens; this has {len(prompt)}. Shorten it.",
                param,
                "context_length_exceeded",
            )
        if room < 1 or (params.max_tokens or 1) > room:
            asked = f" and {params.max_tokens} for the answer" if room >= 1 else ""
            raise bad_request(
                f"This model's context is {context} tokens; the prompt has {len(prompt)}{asked}. Ask for less.",
                param,
                "context_length_exceeded",
            )
        return params.max_tokens or room

    def _admit(
        self, model: ModelEntry, prompt_tokens: int, max_tokens: int, priority: Priority
    ) -> Charges | QueuePlace:
        if self._open >= self._settings.max_open_calls:
            raise over_capacity(f"{self._open} requests are being answered", 1.0)
        return self._gate.enter(model, prompt_tokens, max_tokens, priority)

    async def _hold(
        self,
        place: QueuePlace,
        entry: Entry,
        exchange: HttpExchange,
        gone: "asyncio.Future[None]",
        events: EventStream | None,
    ) -> Charges:
        """Wait for its turn. Raises ApiError when that does not come in time, or nobody waits for it any more."""
        exchange.timeout.reschedule(None)  # the place in the queue has a time-out of its own
        try:
            while not (place.turn.done() or gone.done()):
                pause_s = None if events is None else self._settings.hold_comment_s
                await asyncio.wait((place.turn, gone), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
                if events is not None and not place.turn.done():
                    await events.comment(b"waiting for an instance")
            if gone.done():
                raise client_left()
            charges = place.turn.result()
        except BaseException:
            self._accounts.refuse(entry)
            self._gate.leave(place)
            raise
        exchange.timeout.reschedule(self._loop.time() + self._settings.request_timeout_s + TIMEOUT_SLACK_S)
        return charges

    async def _whole(self, answer_: Answer, reply: Reply, exchange: HttpExchange) -> None:
        pieces = [piece async for piece in answer_.pieces()]
        body = reply.whole(pieces, answer_.finish_reason, answer_.usage)
        await answer(exchange.send, 200, body, (JSON, *exchange.headers))

    async def _stream(self, answer_: Answer, reply: Reply, events: EventStream, with_usage: bool) -> None:
        async for piece in answer_.pieces():
            await events.piece(piece)
        await events.end(reply.closing(answer_.finish_reason, answer_.usage if with_usage else None))

    async def _watch(self, receive: Receive, model: str, gone: "asyncio.Future[None]") -> None:
        """Says when the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._metrics.disconnects.labels(model).inc()
        gone.set_result(None)

    def _end(self, call: Call, error: ApiError) -> None:
        self._dispatcher.cancel(call)
        call.finish(error)

    def _count_open(self, more: int) -> None:
        self._open += more
        self._metrics.open_calls.set(self._open)

    def _close_books(self, answer_: Answer, call: Call, charges: Charges, entry: Entry) -> None:
        """Give back what was booked and not done; count what it took."""
        metrics, model, made = self._metrics, call.asked.model, len(call.generated)
        self._gate.settle(charges, made)
        if isinstance(call.end, ApiError) and call.end.code == LATE_REFUSED:
            self._accounts.refuse(entry)
            self._judge(call, "ttft", inf)
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
            self._judge(call, "ttft", ttft_s)
            if made > 1:
                tpot_s = (now_s - answer_.first_token_s) / (made - 1)
                metrics.per_token_s.labels(model).observe(tpot_s)
                self._judge(call, "tpot", tpot_s)
        elif isinstance(call.end, ApiError) and call.end.status >= _FAULT:
            self._judge(call, "ttft", inf)
        if is_whole:
            metrics.request_s.labels(model).observe(now_s - answer_.started_s)

    def _judge(self, call: Call, objective: str, took_s: float) -> None:
        """Count whether it was kept, for the work class that decides it, where a route was found at all; a request that
        is refused as late counts for those of all routes, none of which had room for it."""
        model, unit = self._dispatcher.models.get(call.asked.model), _UNITS[objective]
        slo = None if model is None else model.served.routing.objective
        if model is not None and slo is not None:
            limit_ms = slo.tpot_ms if objective == "tpot" else slo.first_token_ms(len(call.asked.prompt))
            kept = str(1000 * took_s <= limit_ms).lower()
            is_refused = isinstance(call.end, ApiError) and call.end.code == LATE_REFUSED
            routes = model.served.routing.routes if is_refused and call.route is None else (call.route,)
            for work_class in {"" if route is None else route.work_class_of(unit) for route in routes}:
                self._metrics.judged.labels(call.asked.model, work_class, objective, kept).inc()


def _too_long() -> ApiError:
    return ApiError(504, "server_error", "The answer took too long", code="timeout")
