"""Spans for OpenTelemetry, where an exporter is configured; otherwise ids alone, at no cost."""

import logging
import os
from collections.abc import Callable
from typing import Any

from agents.tracing.trace_parent import TraceParent, new_trace_parent
from templates_lib.values.install_hint import install_hint

_log = logging.getLogger(__name__)

_ASKED_BY = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables: where there is one of them, spans are sent there."""


class Span:
    """Span of one piece of work; `trace` is what is handed on to others."""

    def __init__(self, trace: TraceParent, kept: Any = None) -> None:
        self.trace = trace
        self._kept = kept

    def end(self, **attributes: str | int | float) -> None:
        if self._kept is not None:
            self._kept.set_attributes(attributes)
            self._kept.end()


StartSpan = Callable[[str, TraceParent | None], Span]
"""Name, and who handed it on; None: it begins here."""


def ids_alone(_name: str, parent: TraceParent | None) -> Span:
    return Span(new_trace_parent() if parent is None else parent.child())


def spans_of(service: str) -> StartSpan:
    """Return the function that starts spans, as the environment asks. Without OpenTelemetry (the `tracing` extra) one
    line says so, and no span is recorded."""
    if not any(os.environ.get(name) for name in _ASKED_BY):
        return ids_alone
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        _log.error("spans are asked for and cannot be kept: %s (%s)", install_hint("tracing"), error)
        return ids_alone
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("medley")

    def start(name: str, parent: TraceParent | None) -> Span:
        context = None
        if parent is not None:
            flags = trace.TraceFlags(int(parent.flags, 16))
            ids = (int(parent.trace_id, 16), int(parent.span_id, 16))
            context = trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(*ids, True, flags)))
        kept = tracer.start_span(name, context=context)
        made = kept.get_span_context()
        own = TraceParent(f"{made.trace_id:032x}", f"{made.span_id:016x}", f"{int(made.trace_flags):02x}")
        return Span(own, kept)

    return start
