"""Answers one request of /v1/completions or /v1/chat/completions, from its body to the last byte."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from agents.messages.to_gateway import FinishReason
from control.gateway.answer import Answer
from control.gateway.api_error import ApiError, bad_request, over_capacity, unavailable, unknown_model, unsupported
from control.gateway.call import Asked, Call
from control.gateway.chat_template import ChatTemplateError
from control.gateway.dispatcher import Dispatcher
from control.gateway.http import JSON, Receive, Send, answer
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.reply import Reply, error_event
from control.gateway.settings import GatewaySettings
from control.gateway.tokenizer import Tokenizer
from control.gateway.wanted import Wanted
from policies.admission import Admission, Charge

_EVENTS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)

MakeReply = Callable[[str, str, int, Tokenizer, bool], Reply]


@dataclass(frozen=True, slots=True)
class Asking:
    """One HTTP request: its id, and where its answer goes."""

    request: str
    receive: Receive
    send: Send
    headers: tuple[tuple[bytes, bytes], ...]


class Generation:
    """What all requests share."""

    def __init__(self, dispatcher: Dispatcher, settings: GatewaySettings, metrics: GatewayMetrics) -> None:
        self._dispatcher = dispatcher
        self._settings = settings
        self._metrics = metrics
        self._admission = Admission(settings.max_wait_s)
        self._loop = asyncio.get_running_loop()
        self._open = 0

    async def serve(self, wanted: Wanted, asking: Asking, make_reply: MakeReply) -> None:
        """Raises ApiError as long as nothing has been sent."""
        model = self._model(wanted)
        prompt = await self._tokens(wanted, model)
        max_tokens = self._room(wanted, model, prompt)
        charges = self._admit(model, len(prompt), max_tokens)
        asked = Asked(
            asking.request,
            model.id,
            prompt,
            wanted.sampling,
            max_tokens,
            () if wanted.ignores_eos else model.tokenizer.stop_ids,
            self._loop.time() + self._settings.request_timeout_s,
        )
        call = Call(asked)
        id_ = asking.request.removeprefix("req-")
        reply = make_reply(id_, model.id, int(time.time()), model.tokenizer, wanted.with_usage)
        answer_ = Answer(call, model.tokenizer, wanted.stop, self._dispatcher)
        deadline = self._loop.call_later(self._settings.request_timeout_s, self._expire, call)
        watch = self._loop.create_task(self._watch(asking.receive, call))
        self._open += 1
        self._metrics.open_calls.set(self._open)
        self._metrics.prompt_tokens.labels(model.id).inc(len(prompt))
        try:
            self._dispatcher.start(call)
            if wanted.is_stream:
                await self._stream(answer_, reply, asking, wanted.with_usage)
            else:
                await self._whole(answer_, reply, asking)
        finally:
            watch.cancel()
            deadline.cancel()
            self._dispatcher.cancel(call)
            self._open -= 1
            self._close_books(answer_, call, charges)

    def _model(self, wanted: Wanted) -> ModelEntry:
        model = self._dispatcher.models.get(wanted.model)
        if model is None:
            raise unknown_model(wanted.model, self._dispatcher.models)
        top, most = wanted.sampling.top_logprobs, model.served.max_top_logprobs
        if top is not None and (most is None or top > most):
            why = "the engine of this model has none" if most is None else f"at most {most} alternatives can be had"
            raise unsupported("logprobs", why)
        return model

    async def _tokens(self, wanted: Wanted, model: ModelEntry) -> tuple[int, ...]:
        """Raises ApiError for what cannot be a prompt."""
        prompt, tokenizer = wanted.prompt, model.tokenizer
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

    def _room(self, wanted: Wanted, model: ModelEntry, prompt: tuple[int, ...]) -> int:
        """Tokens that the answer may have."""
        context, param = model.served.context_tokens, "messages" if isinstance(wanted.prompt, list) else "prompt"
        room = context - len(prompt)
        if room < 1 or (wanted.max_tokens or 1) > room:
            asked = f" and {wanted.max_tokens} for the answer" if room >= 1 else ""
            raise bad_request(
                f"This model's context is {context} tokens; the prompt has {len(prompt)}{asked}. Ask for less.",
                param,
                "context_length_exceeded",
            )
        return wanted.max_tokens or room

    def _admit(self, model: ModelEntry, prompt_tokens: int, max_tokens: int) -> tuple[Charge, Charge]:
        if self._open >= self._settings.max_open_calls:
            raise over_capacity(f"{self._open} requests are being answered", 1.0)
        charges = model.charges(prompt_tokens, max_tokens)
        refusal = self._admission.admit(charges, self._loop.time())
        if refusal is None:
            return charges
        if min(charge.units_per_s for charge in charges) <= 0:
            raise unavailable(f"No instance serves `{model.id}` now")
        what = refusal.work.rpartition("/")[2]
        raise over_capacity(f"`{model.id}` is at its capacity for {what} tokens", refusal.retry_after_s)

    async def _whole(self, answer_: Answer, reply: Reply, asking: Asking) -> None:
        pieces = [piece async for piece in answer_.pieces()]
        body = reply.whole(pieces, answer_.finish_reason, answer_.usage)
        await answer(asking.send, 200, body, (JSON, *asking.headers))

    async def _stream(self, answer_: Answer, reply: Reply, asking: Asking, with_usage: bool) -> None:
        """The status is sent with the first text, so that what fails before has a status of its own."""
        send, is_open = asking.send, False
        try:
            async for piece in answer_.pieces():
                if not is_open:
                    is_open = True
                    await _begin(asking, reply.opening())
                await send({"type": "http.response.body", "body": reply.chunk(piece), "more_body": True})
            if not is_open:
                await _begin(asking, reply.opening())
            last = reply.closing(answer_.finish_reason, answer_.usage if with_usage else None)
        except ApiError as error:
            if not is_open:
                raise
            last = error_event(error)
        await send({"type": "http.response.body", "body": last})

    async def _watch(self, receive: Receive, call: Call) -> None:
        """Ends the call when its client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._metrics.disconnects.labels(call.asked.model).inc()
        self._dispatcher.cancel(call)
        call.finish(ApiError(499, "client_closed_request", "The client left"))

    def _expire(self, call: Call) -> None:
        self._dispatcher.cancel(call)
        call.finish(ApiError(504, "server_error", "The answer took too long", code="timeout"))

    def _close_books(self, answer_: Answer, call: Call, charges: tuple[Charge, Charge]) -> None:
        """What was booked and not done is given back; what it took is counted."""
        metrics, model, made = self._metrics, call.asked.model, len(call.generated)
        output = charges[1]
        self._admission.give_back(Charge(output.work, output.units - made, output.units_per_s))
        metrics.open_calls.set(self._open)
        metrics.output_tokens.labels(model).inc(made)
        now_s = time.monotonic()
        if answer_.first_token_s is not None:
            metrics.first_token_s.labels(model).observe(answer_.first_token_s - answer_.started_s)
            if made > 1:
                metrics.per_token_s.labels(model).observe((now_s - answer_.first_token_s) / (made - 1))
        if isinstance(call.end, FinishReason):
            metrics.request_s.labels(model).observe(now_s - answer_.started_s)


async def _begin(asking: Asking, opening: bytes) -> None:
    await asking.send({"type": "http.response.start", "status": 200, "headers": [*_EVENTS, *asking.headers]})
    if opening:
        await asking.send({"type": "http.response.body", "body": opening, "more_body": True})
