"""Every request leaves a trace id, a line in the log and a mark in the metrics."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control.api.metrics import ApiMetrics
from control.api.trace import current_trace, trace_id_of

_log = logging.getLogger("medley.api")


class RequestLog:
    """ASGI middleware, the outermost."""

    def __init__(self, app: ASGIApp, metrics: ApiMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        trace = trace_id_of(sent)
        token, began_s, status = current_trace.set(trace), time.monotonic(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-trace-id", trace.encode())]
                self._metrics.answered(scope["method"], _route(scope), status, time.monotonic() - began_s)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            caller = scope.get("state", {}).get("caller")
            _log.info(
                "request",
                extra={
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "duration_ms": round(1000 * (time.monotonic() - began_s), 1),
                    "caller": "" if caller is None else caller.actor,
                },
            )
            current_trace.reset(token)


def _route(scope: Scope) -> str:
    """The route's pattern, not its path, of which there are as many as names."""
    return getattr(scope.get("route"), "path", "none")
