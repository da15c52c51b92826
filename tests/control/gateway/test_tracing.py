"""One trace id from a client's header through the gateway to the scheduler, in headers, logs and spans."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agents.tracing.trace_parent import read_trace_parent
from tests.control.gateway.world import MODEL, World, world_of
from tests.http_endpoint import Said, serving

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
BODY = {"model": MODEL, "prompt": "abcd", "max_tokens": 4}


def lines(log: Path) -> list[dict[str, Any]]:
    """But for one that is being written."""
    return [json.loads(line) for line in log.read_text().split("\n")[:-1]]


def wait_for(log: Path, **fields: object) -> dict[str, Any]:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for line in lines(log):
            if fields.items() <= line.items():
                return line
        time.sleep(0.02)
    raise AssertionError(f"no line with {fields} in {log.read_text()}")


def ask(world: World, **headers: str) -> str:
    with world.http() as http:
        answer = http.post("/v1/completions", json=BODY, headers=headers)
    assert answer.status_code == 200
    return answer.headers["traceparent"]


def test_a_trace_goes_on_from_the_client_to_the_scheduler(tmp_path: Path):
    with world_of(tmp_path, {"e1": ()}) as world:
        answered = ask(world, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01", **{"x-request-id": "mine"})
        said = read_trace_parent(answered)
        assert said is not None
        assert said.trace_id == TRACE
        assert said.span_id != "00f067aa0ba902b7"
        here = wait_for(tmp_path / "gateway.log", trace=TRACE)
        assert (here["request"], here["status"], here["level"]) == ("mine", 200, "info")
        there = wait_for(tmp_path / "e1.log", trace=TRACE)
        assert (there["request"], there["status"]) == ("mine", "length")


@pytest.mark.parametrize("header", [{}, {"traceparent": "rubbish"}])
def test_a_trace_begins_at_the_gateway_where_a_client_has_none(tmp_path: Path, header: dict[str, str]):
    with world_of(tmp_path, {"e1": ()}) as world:
        first, second = (read_trace_parent(ask(world, **header)) for _ in range(2))
        assert first is not None
        assert second is not None
        assert first.trace_id != second.trace_id
        wait_for(tmp_path / "e1.log", trace=first.trace_id)


def test_spans_go_to_the_collector_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    spans: dict[str, Any] = {}
    with serving(lambda _: Said(b"")) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with world_of(tmp_path, {"e1": ()}) as world:
            ask(world, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
            end = time.monotonic() + 120
            while len(spans) < 2:
                assert time.monotonic() < end, spans
                for asked in list(collector.asked):
                    for resource in proto.ExportTraceServiceRequest.FromString(asked.body).resource_spans:
                        spans |= {span.name: span for scope in resource.scope_spans for span in scope.spans}
                time.sleep(0.02)
    ours, theirs = spans["/v1/completions"], spans[f"whole {MODEL}"]
    assert {ours.trace_id.hex(), theirs.trace_id.hex()} == {TRACE}
    assert (ours.parent_span_id.hex(), theirs.parent_span_id) == ("00f067aa0ba902b7", ours.span_id)
