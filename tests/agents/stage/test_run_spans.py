"""Spans of requests at each stage, below that of their scheduler, as a collector gets them."""

import time
from pathlib import Path
from typing import Any

import pytest

from agents.messages.to_gateway import Finished
from tests.agents.engines.tiny_models import prompt_of
from tests.agents.stage.instances import Gateway, Instance, play
from tests.agents.stage.questions import asked
from tests.http_endpoint import Said, serving

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def test_each_stage_says_what_it_did_of_a_request(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    spans: dict[str, Any] = {}

    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(20), 4, trace=f"00-{TRACE}-{PARENT}-01"), asked(2, prompt_of(5), 2))
        await gateway.until(lambda: gateway.ends().keys() == {1, 2})
        assert all(isinstance(end, Finished) for end in gateway.ends().values())

    with serving(lambda _: Said(b"")) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with Instance(tmp_path, checkpoint, (2, 4), ((1.0,), (1.0,))) as made:
            play(made, scenario)
            end_s = time.monotonic() + 120
            while len(spans) < 3:
                assert time.monotonic() < end_s, spans
                for heard in list(collector.asked):
                    for resource in proto.ExportTraceServiceRequest.FromString(heard.body).resource_spans:
                        spans |= {span.name: span for scope in resource.scope_spans for span in scope.spans}
                time.sleep(0.02)
    scheduler = spans.pop("whole tiny")
    assert (scheduler.trace_id.hex(), scheduler.parent_span_id.hex()) == (TRACE, PARENT)
    assert spans.keys() == {"layers 0 to 1", "layers 2 to 5"}
    for span in spans.values():
        assert (span.trace_id.hex(), span.parent_span_id) == (TRACE, scheduler.span_id)
        said = {each.key: each.value for each in span.attributes}
        assert said["tokens"].int_value == 20 + 3, "the last token is not computed"
        assert said["steps"].int_value == 2 + 3, "a prompt of 20 takes two chunks of 16"
        assert said["engine_s"].double_value > 0
