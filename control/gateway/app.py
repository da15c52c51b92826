"""The gateway as an ASGI application: paths, keys, request ids, and every error as an error object."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import msgspec

from agents.tracing.spans import StartSpan, ids_alone
from agents.tracing.trace_parent import read_trace_parent
from control.gateway.access import check_access
from control.gateway.api_error import ApiError, unavailable, unknown_model
from control.gateway.bodies import ChatBody, CompletionBody, DetokenizeBody, EmbeddingBody, TokenizeBody, read_body
from control.gateway.body_budget import BodyBudget
from control.gateway.chat_request import chat_params
from control.gateway.completion_reply import CompletionReply
from control.gateway.completion_request import completion_params
from control.gateway.condition import Condition
from control.gateway.counts import Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.embedding_request import EmbeddingReply, embedding_params
from control.gateway.generation import TIMEOUT_SLACK_S, Generation, HttpExchange
from control.gateway.generation_params import Conversation
from control.gateway.http import JSON, ClientGoneError, Receive, Scope, Send, answer, header, read_all
from control.gateway.making.image_request import ImageBody, image_params
from control.gateway.making.made_answers import MadeAnswers
from control.gateway.making.speech_request import SpeechBody, speech_params
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_object import app_object, model_object
from control.gateway.multipart import form_parts
from control.gateway.parsed_chat_reply import chat_reply
from control.gateway.response_body import ResponseBody
from control.gateway.response_reply import ResponseReply
from control.gateway.response_request import in_own_words, params_of
from control.gateway.runs.run_answers import RunAnswers
from control.gateway.runs.run_request import ENDPOINT, RunBody, RunPath, run_path
from control.gateway.settings import GatewaySettings
from control.gateway.table_keeper import TableKeeper
from control.gateway.tasks.apps import Apps
from control.gateway.tokenizing import detokenize, tokenize
from control.gateway.transcription_reply import TranscriptionReply
from control.gateway.transcription_request import transcription_params

_log = logging.getLogger(__name__)

_CLIENT_ID = re.compile(rb"[A-Za-z0-9._:\-]{1,128}")
_EMBEDDINGS = "/v1/embeddings"
_OTHER = "other"
_TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class GatewayApp:
    """Make it on a running loop."""

    def __init__(
        self,
        settings: GatewaySettings,
        dispatcher: Dispatcher,
        apps: Apps,
        table: TableKeeper,
        generation: Generation,
        made_answers: MadeAnswers,
        run_answers: RunAnswers,
        metrics: GatewayMetrics,
        condition: Condition,
        start_span: StartSpan,
        counts: Counts,
    ) -> None:
        self.settings = settings
        self._dispatcher = dispatcher
        self._apps = apps
        self._table = table
        self._metrics = metrics
        self._condition = condition
        self._generation = generation
        self._made_answers = made_answers
        self._run_answers = run_answers
        self._start_span = start_span
        self._bodies = BodyBudget(settings.max_bodies_bytes, counts)
        self._get: dict[str, Callable[[HttpExchange, Scope], Awaitable[None]]] = {
            "/v1/models": self._models,
            "/healthz": self._health,
            "/readyz": self._ready,
            "/metrics": self._show_metrics,
        }
        self._post: dict[str, Callable[[HttpExchange, Scope], Awaitable[None]]] = {
            "/v1/completions": self._complete,
            "/v1/chat/completions": self._chat,
            "/v1/responses": self._respond,
            _EMBEDDINGS: self._embed,
            "/v1/audio/transcriptions": self._transcribe,
            "/v1/audio/speech": self._speak,
            "/v1/images/generations": self._draw,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = header(scope, b"x-request-id")
        request = given.decode() if _CLIENT_ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"
        status = 200
        endpoint, began_s = self._endpoint(scope["path"]), time.monotonic()
        is_generation = endpoint != _OTHER
        start = self._start_span if is_generation else ids_alone
        span = start(endpoint, read_trace_parent(header(scope, b"traceparent").decode("ascii", "replace")))
        headers = ((b"x-request-id", request.encode()), (b"traceparent", str(span.trace).encode()))
        try:
            async with asyncio.timeout(self.settings.request_timeout_s + TIMEOUT_SLACK_S) as timeout:
                exchange = HttpExchange(
                    request,
                    receive,
                    send,
                    headers,
                    timeout,
                    span.trace,
                    self._bodies.hold(("", "")),
                    header(scope, b"x-medley-explain") == b"1",
                    _is_retry(scope),
                )
                await self._route(scope, exchange)
        except ApiError as error:
            status = error.status
            await answer(send, status, error.encode(), (JSON, *error.headers, *headers))
        except (ClientGoneError, TimeoutError):
            status = 499
        except Exception:
            _log.exception("request failed", extra={"request": request, "trace": span.trace.trace_id})
            status = 500
            internal = ApiError(500, "server_error", f"Internal error; the log says more about {request}")
            await answer(send, status, internal.encode(), (JSON, *headers))
        if is_generation:
            about = {"request": request, "trace": span.trace.trace_id, "status": status}
            _log.info("%s", scope["path"], extra={**about, "seconds": round(time.monotonic() - began_s, 4)})
        span.end(request=request, status=status)
        self._metrics.requests.labels(endpoint, status).inc()

    def _endpoint(self, path: str) -> str:
        """Name the endpoint of a path for logs and metrics, which know a few."""
        return path if path in self._post else ENDPOINT if run_path(path) is not None else _OTHER

    async def _route(self, scope: Scope, exchange: HttpExchange) -> None:
        path, method = scope["path"], scope["method"]
        handlers = self._post if method == "POST" else self._get if method in ("GET", "HEAD") else {}
        handler = handlers.get(path)
        if handler is None and method in ("GET", "HEAD") and path.startswith("/v1/models/"):
            handler = self._model
        if handler is None and (found := run_path(path)) is not None:
            handler = self._runs(found, method)
        if handler is None:
            raise self._no_handler(path, method)
        key = None
        if path.startswith("/v1/") or path in self._post:
            published = self._table.published
            if published is None:
                raise unavailable(self._table.problem)
            key = check_access(header(scope, b"authorization"), self._table.access, self._table.peppers)
        account = exchange.account if key is None else key.account
        exchange = replace(exchange, key=key, body=self._bodies.hold(account))
        try:
            await handler(exchange, scope)
        finally:
            exchange.body.release()

    def _no_handler(self, path: str, method: str) -> ApiError:
        if path.startswith("/v1/responses/"):
            kept = "Responses are not kept here: there is none to get, end or delete. Keep what POST /v1/responses gave"
            return ApiError(404, "invalid_request_error", kept, code="not_found")
        runs = run_path(path)
        if path not in self._get and path not in self._post and runs is None:
            return ApiError(404, "invalid_request_error", f"Unknown URL: {method} {path[:200]}", code="unknown_url")
        allowed = "POST" if path in self._post or (runs is not None and not runs.run) else "GET"
        return ApiError(
            405,
            "invalid_request_error",
            f"{path} takes {allowed}, not {method}",
            code="method_not_allowed",
            headers=((b"allow", allowed.encode()),),
        )

    async def _complete(self, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope), CompletionBody)
        params = completion_params(body)
        echoed = params.prompts if body.echo else ()
        await self._generation.serve(params, exchange, partial(CompletionReply, echoed))

    async def _chat(self, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope), ChatBody)
        params = chat_params(body)
        (asked,) = params.prompts
        tools = asked.tools if isinstance(asked, Conversation) else None
        await self._generation.serve(params, exchange, partial(chat_reply, tools))

    async def _respond(self, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope), ResponseBody)
        try:
            params = params_of(body)
            (asked,) = params.prompts
            tools = asked.tools if isinstance(asked, Conversation) else None
            await self._generation.serve(params, exchange, partial(ResponseReply, body, tools))
        except ApiError as error:
            raise in_own_words(error) from None

    async def _embed(self, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope), EmbeddingBody)
        await self._generation.serve_whole(embedding_params(body), exchange, partial(EmbeddingReply, body))

    async def _transcribe(self, exchange: HttpExchange, scope: Scope) -> None:
        body = await self._body(exchange, scope)
        parts = form_parts(body, header(scope, b"content-type").decode("latin-1"))
        await self._generation.serve(transcription_params(parts), exchange, TranscriptionReply)

    async def _speak(self, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope), SpeechBody)
        params, shape = speech_params(body)
        await self._made_answers.speak(params, exchange, shape, as_events=body.stream_format == "sse")

    async def _draw(self, exchange: HttpExchange, scope: Scope) -> None:
        params = image_params(read_body(await self._body(exchange, scope), ImageBody))
        await self._made_answers.draw(params, exchange)

    def _runs(self, path: RunPath, method: str) -> Callable[[HttpExchange, Scope], Awaitable[None]] | None:
        """Find who answers a request for runs; None: nobody does."""
        if method == "POST" and not path.run:
            return partial(self._start_run, path)
        return partial(self._run_answers.show, path) if method in ("GET", "HEAD") and path.run else None

    async def _start_run(self, path: RunPath, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope) or b"{}", RunBody)
        await self._run_answers.start(body, path, exchange, scope)

    async def _tokenize(self, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope), TokenizeBody)
        await self._say(exchange, 200, await tokenize(body, self._apps.named(self._dispatcher.models)))

    async def _detokenize(self, exchange: HttpExchange, scope: Scope) -> None:
        body = read_body(await self._body(exchange, scope), DetokenizeBody)
        await self._say(exchange, 200, await detokenize(body, self._apps.named(self._dispatcher.models)))

    async def _body(self, exchange: HttpExchange, scope: Scope) -> bytes:
        models = self._dispatcher.models.values()
        most = self.settings.body_limit(max((model.served.context_tokens for model in models), default=0))
        if scope["path"] == _EMBEDDINGS:
            most = self.settings.max_body_bytes
        if any(model.reading is not None for model in models):
            most = self.settings.max_media_body_bytes
        return await read_all(scope, exchange.receive, most, self.settings.body_timeout_s, exchange.body)

    async def _models(self, exchange: HttpExchange, _scope: Scope) -> None:
        models = self._dispatcher.models
        parts = self._apps.parts.union(model.served.longer for model in models.values())
        data = [model_object(model) for model in models.values() if model.id not in parts]
        data += [found for entry in self._apps.entries.values() if (found := app_object(entry)) is not None]
        await self._say(exchange, 200, {"object": "list", "data": data})

    async def _model(self, exchange: HttpExchange, scope: Scope) -> None:
        name = scope["path"].removeprefix("/v1/models/")
        model, app = self._dispatcher.models.get(name), self._apps.entries.get(name)
        found = model_object(model) if model is not None else None if app is None else app_object(app)
        if found is None or name in self._apps.parts:
            raise unknown_model(name, self._apps.named(self._dispatcher.models))
        await self._say(exchange, 200, found)

    async def _health(self, exchange: HttpExchange, _scope: Scope) -> None:
        """The process answers."""
        await self._say(exchange, 200, {"status": "ok"})

    async def _ready(self, exchange: HttpExchange, _scope: Scope) -> None:
        """Requests of some model can be served."""
        readiness = await self._condition.readiness()
        await self._say(exchange, 200 if readiness.ready else 503, readiness)

    async def _show_metrics(self, exchange: HttpExchange, _scope: Scope) -> None:
        await answer(exchange.send, 200, await self._condition.metrics(), (_TEXT, *exchange.headers))

    async def _say(self, exchange: HttpExchange, status: int, value: object) -> None:
        await answer(exchange.send, status, msgspec.json.encode(value), (JSON, *exchange.headers))


def _is_retry(scope: Scope) -> bool:
    """The official clients say when they ask again for what they were refused."""
    count = header(scope, b"x-stainless-retry-count")
    return count.isdigit() and int(count[:4]) > 0
