"""Answers one request for sound or pictures, from its checked form to the last byte."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from agents.messages.component_work import Made
from control.gateway.api_error import ApiError, over_capacity, unavailable
from control.gateway.counts import Counted, Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.gate import Gate
from control.gateway.generation import HttpExchange
from control.gateway.holding import Charges
from control.gateway.http import JSON, Receive, answer
from control.gateway.making.made_params import MadeParams
from control.gateway.making.made_reply import SoundReply, images_body
from control.gateway.making.making_call import MakingCall, MakingRequest
from control.gateway.making.speech_request import SpeechFormat
from control.gateway.media.media_unit import MediaUnits
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.reply import error_event
from control.gateway.request_accounts import Entry, RequestAccounts
from control.gateway.service_tier import granted_priority
from control.gateway.settings import GatewaySettings
from control.gateway.tasks.apps import Apps
from control.gateway.tasks.task_call import TaskRequest
from templates_lib.values.work import Unit

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Booked:
    """Answers of one request that were admitted."""

    model: ModelEntry
    unit: Unit
    """That the generator's work is counted in."""
    expected: tuple[float, ...]
    """Units of each."""
    calls: tuple[MakingCall, ...]
    charges: Charges
    entries: tuple[Entry, ...]


class MadeAnswers:
    """Serves requests; one object for all of them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        gate: Gate,
        accounts: RequestAccounts,
        apps: Apps,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        counts: Counts,
    ) -> None:
        self._dispatcher, self._gate, self._accounts, self._apps = dispatcher, gate, accounts, apps
        self._settings, self._metrics = settings, metrics
        self._counts = counts
        self._loop = asyncio.get_running_loop()

    async def speak(self, params: MadeParams, exchange: HttpExchange, shape: SpeechFormat, *, as_events: bool) -> None:
        """Send sound as it is made. Raises ApiError as long as nothing has been sent."""
        async with self._served(params, exchange) as booked:
            reply = SoundReply(shape, as_events=as_events)
            (call,) = booked.calls
            headers = [(b"content-type", reply.content_type), *exchange.headers, *booked.entries[0].headers]
            is_begun = False
            try:
                async with _in_time(call), aclosing(self._pieces(booked.model, call)) as pieces:
                    async for made in pieces:
                        if not is_begun:
                            is_begun = True
                            await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
                        body = reply.chunk(made.data, made.samples_per_s, is_last=made.is_last)
                        await exchange.send({"type": "http.response.body", "body": body, "more_body": not made.is_last})
            except ApiError as error:
                if not is_begun:
                    raise
                _log.warning("%s ends amid its sound: %s", exchange.request, error)
                if as_events:
                    await exchange.send({"type": "http.response.body", "body": error_event(error)})
                # Else the body stays without an end, so that its connection is cut and its client knows.

    async def draw(self, params: MadeParams, exchange: HttpExchange) -> None:
        """Send pictures once all are made. Raises ApiError."""
        async with self._served(params, exchange) as booked:
            error: ApiError | None = None
            try:
                async with _in_time(booked.calls[0]), asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._whole(booked.model, call)) for call in booked.calls]
            except* ApiError as errors:
                error = _first(errors)
            if error is not None:
                raise error
            body = images_body(int(time.time()), [task.result() for task in tasks])
            await answer(exchange.send, 200, body, (JSON, *exchange.headers, *booked.entries[0].headers))

    async def _whole(self, model: ModelEntry, call: MakingCall) -> bytes:
        async with aclosing(self._pieces(model, call)) as pieces:
            return b"".join([made.data async for made in pieces])

    async def _pieces(self, model: ModelEntry, call: MakingCall) -> AsyncGenerator[Made, None]:
        """Raises ApiError."""
        began_s = time.monotonic()
        async with aclosing(self._dispatcher.making.pieces(call)) as pieces:
            async for made in pieces:
                if call.sent == 1:
                    self._metrics.first_piece_s.labels(model.id).observe(time.monotonic() - began_s)
                yield made

    @asynccontextmanager
    async def _served(self, params: MadeParams, exchange: HttpExchange) -> AsyncGenerator[_Booked, None]:
        """Admit a request, and close its books whatever becomes of it. Raises ApiError."""
        exchange.body.release()
        booked = await self._book(params, exchange, *await self._calls(params, exchange))
        watch = self._loop.create_task(self._watch(exchange.receive, booked.model.id, exchange.timeout))
        self._count_open(len(booked.calls))
        try:
            yield booked
        finally:
            watch.cancel()
            self._count_open(-len(booked.calls))
            self._close(booked)

    async def _calls(self, params: MadeParams, exchange: HttpExchange) -> tuple[TaskRequest, tuple[MakingCall, ...]]:
        """Raises ApiError."""
        asked = self._apps.making(params.model, params.answer, self._dispatcher.models)
        reading = asked.model.reading
        if reading is None:
            raise unavailable(f"The table lacks the config of `{params.model}`")
        graphs = await asked.app.graphs(asked.signature, asked.model.served.routing, reading.graph, MediaUnits(()))
        about = exchange.request, asked.model.id, params.model, graphs
        deadline_s = self._loop.time() + self._settings.request_timeout_s
        trace = str(exchange.trace)
        return asked, tuple(MakingCall(MakingRequest(*about, each, deadline_s, trace)) for each in params.asked)

    async def _book(
        self, params: MadeParams, exchange: HttpExchange, asked: TaskRequest, calls: tuple[MakingCall, ...]
    ) -> _Booked:
        """Open the accounts of all answers and admit them, or none. Raises ApiError."""
        model, reading = asked.model, asked.model.reading
        assert reading is not None  # noqa: S101 - `_calls` has looked
        makers = {graph.component for graph in calls[0].asked.graphs.values()}
        unit = reading.graph.component(makers.pop()).unit
        legs = (leg for route in model.served.routing.routes for leg in route.legs)
        expected = params.units(next((leg.units_per_request for leg in legs if leg.unit is unit), 1.0))
        units = [{unit: each} for each in expected]
        entries = await self._accounts.open_made(model, units, exchange.key, is_retry=exchange.is_retry)
        try:
            being_made = self._counts.total(Counted.OPEN_MADE)
            if being_made + len(calls) > self._settings.max_open_calls:
                raise over_capacity(f"{being_made} answers are being made", 1.0)
            charges = model.charges(0, 0, exchange.account, {unit: sum(expected)})
            self._gate.enter_at_once(model, charges, granted_priority(params.service_tier, exchange.ceiling))
        except ApiError:
            for entry in entries:
                self._accounts.refuse(entry)
            raise
        return _Booked(model, unit, tuple(expected), calls, charges, tuple(entries))

    def _close(self, booked: _Booked) -> None:
        made = sum(call.units for call in booked.calls)
        self._gate.settle_share(booked.charges, made / sum(booked.expected))
        self._metrics.made.labels(booked.model.id, booked.unit.value).inc(made)
        for call, entry in zip(booked.calls, booked.entries, strict=True):
            done = {booked.unit: call.units}
            self._accounts.close_made(entry, done, is_whole=call.is_whole, is_length_known=call.is_whole)

    async def _watch(self, receive: Receive, model: str, timeout: asyncio.Timeout) -> None:
        """End the exchange when the client leaves: what is made for it is given up."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._metrics.disconnects.labels(model).inc()
        timeout.reschedule(self._loop.time())

    def _count_open(self, more: int) -> None:
        self._counts.add(Counted.OPEN_MADE, more)
        self._metrics.open_calls.inc(more)


@asynccontextmanager
async def _in_time(call: MakingCall) -> AsyncGenerator[None, None]:
    """Raises ApiError where an answer takes too long."""
    try:
        async with asyncio.timeout_at(call.asked.deadline_at_s):
            yield
    except TimeoutError:
        raise ApiError(504, "server_error", "The answer took too long", code="timeout") from None


def _first(errors: "BaseExceptionGroup[ApiError]") -> ApiError:
    """One of them: each would have ended the request."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
