"""Starts runs for clients, and answers with what they emit and return."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from control.gateway.api_error import ApiError, over_capacity
from control.gateway.counts import Counted, Counts
from control.gateway.event_stream import EVENT_HEADERS
from control.gateway.generation import HttpExchange
from control.gateway.http import JSON, Scope, answer, header
from control.gateway.key_limits import Headers
from control.gateway.metrics import GatewayMetrics
from control.gateway.reply import DONE, error_event, event
from control.gateway.request_accounts import RequestAccounts
from control.gateway.runs.run_request import MOST_WAIT_S, PREFIX, RunBody, RunPath
from control.gateway.runs.run_view import EmittedValue, RunView
from control.gateway.settings import GatewaySettings
from control.runs.run_state import OPEN

if TYPE_CHECKING:
    from control.gateway.runs.run_relay import RunRelay

_FIRST_PAUSE_S = 0.05
_MOST_PAUSE_S = 1.0
"""Between two looks at a run: what a client waits longer than its run takes, at the most."""
_MOST_EMITTED_BYTES = 8 << 20
"""Of what an answer that is not streamed holds; its run may emit without end."""


class RunAnswers:
    """Serves requests; one object for all of them."""

    def __init__(
        self,
        relay: "RunRelay | None",
        accounts: RequestAccounts,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        counts: Counts,
    ) -> None:
        """`relay`: None where this gateway knows no API."""
        self._relay, self._accounts, self._settings, self._metrics = relay, accounts, settings, metrics
        self._counts = counts
        self._loop = asyncio.get_running_loop()

    async def start(self, body: RunBody, path: RunPath, exchange: HttpExchange, scope: Scope) -> None:
        """Start a run, and answer when it has ended, or with its events as they come. Raises ApiError."""
        most_s = min(MOST_WAIT_S if body.wait_s is None else body.wait_s, self._settings.request_timeout_s)
        until_s, headers = self._loop.time() + most_s, _headers(exchange, scope)
        once = tuple((name, value) for name in (b"idempotency-key",) if (value := header(scope, name)))
        async with self._served(exchange) as (relay, limits):
            run = await relay.start((*headers, *once), path.workflow, body.arguments)
            exchange.body.release()
            async with aclosing(self._news(relay, headers, run, until_s)) as news:
                if body.stream:
                    await self._stream(news, exchange, limits)
                else:
                    await self._whole(news, exchange, limits)

    async def show(self, path: RunPath, exchange: HttpExchange, scope: Scope) -> None:
        """Answer with a run as it is now. Raises ApiError."""
        headers = _headers(exchange, scope)
        async with self._served(exchange) as (relay, limits):
            run = await relay.look(headers, path.run, 0)
            if run.workflow != path.workflow:
                raise ApiError(404, "invalid_request_error", f"Run {run.id} is of another workflow", code="not_found")
            async with aclosing(self._news(relay, headers, run, self._loop.time())) as news:
                await self._whole(news, exchange, limits, is_new=False)

    async def _news(
        self, relay: "RunRelay", headers: Headers, run: RunView, until_s: float
    ) -> AsyncGenerator[RunView, None]:
        """Yield a run as it is, and again after every look at it, until it has ended or the time is over. What it
        emitted is in one of them. Raises ApiError."""
        pause_s, seen, is_away = _FIRST_PAUSE_S, 0, False
        while True:
            yield run
            seen = run.emitted[-1].seq if run.emitted else seen
            left_s = until_s - self._loop.time()
            if not run.has_more and (run.state not in OPEN or left_s <= 0):
                return
            if is_away or not run.has_more:
                pause_s = _FIRST_PAUSE_S if run.emitted else min(1.5 * pause_s, _MOST_PAUSE_S)
                await asyncio.sleep(min(pause_s, max(left_s, 0.0)))
            try:
                run, is_away = await relay.look(headers, run.id, seen), False
            except ApiError as error:
                is_late = self._loop.time() >= until_s
                if error.status != 503 or (is_late and run.has_more):
                    raise
                if is_late:
                    return  # what is known of it is better than nothing
                run, is_away = msgspec.structs.replace(run, emitted=()), True  # it goes on without the API

    async def _whole(
        self, news: AsyncIterator[RunView], exchange: HttpExchange, limits: Headers, *, is_new: bool = True
    ) -> None:
        emitted, size = list[EmittedValue](), 0
        async for run in news:
            for each in run.emitted:
                size += memoryview(each.value).nbytes
                if size <= _MOST_EMITTED_BYTES:
                    emitted.append(each)
        status = 202 if is_new and run.state in OPEN else 200
        at = (b"location", f"{PREFIX}{run.workflow}/runs/{run.id}".encode())
        body = msgspec.json.encode(_shown(run) | {"emitted": [each.value for each in emitted]})
        await answer(exchange.send, status, body, (JSON, at, *exchange.headers, *limits))

    async def _stream(self, news: AsyncGenerator[RunView, None], exchange: HttpExchange, limits: Headers) -> None:
        """Send an event for the run as it begins, for each value that it emits, and for the run at its end."""
        run = await anext(news)
        headers = [*EVENT_HEADERS, *exchange.headers, *limits]
        await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send(exchange, event(_shown(run)))
        spoken_s = self._loop.time()
        try:
            async for run in news:
                for each in run.emitted:
                    emit = {"object": "workflow.run.emitted", "run": run.id, "seq": each.seq, "value": each.value}
                    await _send(exchange, event(emit))
                    spoken_s = self._loop.time()
                if self._loop.time() - spoken_s > self._settings.hold_comment_s:
                    await _send(exchange, b": still running\n\n")
                    spoken_s = self._loop.time()
            last = event(_shown(run)) + DONE
        except ApiError as error:
            last = error_event(error)
        await exchange.send({"type": "http.response.body", "body": last})

    @asynccontextmanager
    async def _served(self, exchange: HttpExchange) -> AsyncIterator[tuple["RunRelay", Headers]]:
        """Charge the client's key for a request, and end with the client: its run goes on. Raises ApiError."""
        if self._relay is None:
            message = "This gateway knows no control plane to start runs at: start it with --api"
            raise ApiError(404, "invalid_request_error", message, code="unknown_url")
        async with self._accounts.run(exchange.key) as limits:
            with self._counted():
                watch = self._loop.create_task(self._watch(exchange))
                try:
                    yield self._relay, limits
                finally:
                    watch.cancel()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        waited_for = self._counts.total(Counted.OPEN_RUNS)
        if waited_for >= self._settings.max_open_runs:
            raise over_capacity(f"{waited_for} runs are being waited for", 1.0)
        self._count_open(1)
        try:
            yield
        finally:
            self._count_open(-1)

    def _count_open(self, more: int) -> None:
        self._counts.add(Counted.OPEN_RUNS, more)
        self._metrics.open_runs.inc(more)

    async def _watch(self, exchange: HttpExchange) -> None:
        """End the exchange when the client leaves."""
        while (await exchange.receive())["type"] != "http.disconnect":
            pass
        exchange.timeout.reschedule(self._loop.time())


def _headers(exchange: HttpExchange, scope: Scope) -> Headers:
    """Return what the API is sent with every request: the client's key, and the trace."""
    return (b"authorization", header(scope, b"authorization")), (b"traceparent", str(exchange.trace).encode())


def _shown(run: RunView) -> dict[str, Any]:
    about = ("id", "workflow", "state", "reason", "usd", "created_at", "ended_at", "answer")
    return {"object": "workflow.run", **{name: getattr(run, name) for name in about}}


async def _send(exchange: HttpExchange, body: bytes) -> None:
    await exchange.send({"type": "http.response.body", "body": body, "more_body": True})
