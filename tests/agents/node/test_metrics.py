"""What a node's /metrics says, as Prometheus reads it."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from agents.messages.to_gateway import (
    Failure,
    FinishReason,
    NodeStats,
    SchedulerState,
    Stats,
    Status,
    WorkDone,
)
from agents.messages.to_hub import StageReport
from agents.node.metrics import NodeFigures, serve_metrics

STATS = Stats(
    Status(SchedulerState.READY, 3, 2, 100, 75),
    500,
    {FinishReason.STOP: 4, FinishReason.LENGTH: 1},
    {Failure.HAND_OFF: 2},
    WorkDone(900, 7, 1 << 20, 0, (NodeStats("n-0", 12.5, 1000, 0.5), NodeStats("n-1", 3.0)), 1200, 300, 80, 50),
)


def scraped(figures: NodeFigures) -> dict[tuple[str, str], float]:
    """(name, the label that tells samples of a name apart) → value."""
    url = serve_metrics("127.0.0.1", lambda: (figures,))
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    own = {"instance_id", "model_name"}
    assert all(s.labels["instance_id"] == "i1" and s.labels["model_name"] == "m" for s in samples)
    return {(s.name, "".join(v for k, v in s.labels.items() if k not in own)): s.value for s in samples}


def test_a_node_with_the_scheduler_speaks_for_its_stage_and_under_vllms_names_for_the_engine() -> None:
    found = scraped(NodeFigures("i1", "m", StageReport(60.0, 256, 0.4), STATS))
    assert found == {
        ("medley_stage_cpu_share", ""): 0.4,
        ("medley_stage_resident_memory_bytes", ""): 256 * 2**20,
        ("medley_stage_up_seconds", ""): 60.0,
        ("vllm:num_requests_running", ""): 3,
        ("vllm:num_requests_waiting", ""): 2,
        ("vllm:kv_cache_usage_perc", ""): 0.25,
        ("vllm:prompt_tokens_total", ""): 900,
        ("vllm:generation_tokens_total", ""): 500,
        ("vllm:num_preemptions_total", ""): 7,
        ("vllm:prefix_cache_queries_total", ""): 1200,
        ("vllm:prefix_cache_hits_total", ""): 300,
        ("vllm:spec_decode_num_draft_tokens_total", ""): 80,
        ("vllm:spec_decode_num_accepted_tokens_total", ""): 50,
        ("vllm:request_success_total", "stop"): 4,
        ("vllm:request_success_total", "length"): 1,
        ("medley_request_failures_total", "hand_off"): 2,
        ("medley_stage_busy_seconds_total", "n-0"): 12.5,
        ("medley_stage_busy_seconds_total", "n-1"): 3.0,
        ("medley_stage_weights_read_bytes", "n-0"): 1000,
        ("medley_stage_weights_read_bytes", "n-1"): 0,
        ("medley_stage_load_seconds", "n-0"): 0.5,
        ("medley_stage_load_seconds", "n-1"): 0.0,
        ("medley_kv_sent_bytes_total", ""): 1 << 20,
        ("medley_kv_received_bytes_total", ""): 0,
    }


def test_a_node_without_a_scheduler_speaks_for_its_stage_only() -> None:
    found = scraped(NodeFigures("i1", "m", StageReport(1.0, 1, 0.0), None))
    assert {name for name, _ in found} == {
        "medley_stage_cpu_share",
        "medley_stage_resident_memory_bytes",
        "medley_stage_up_seconds",
    }


def test_a_node_without_work_has_nothing_to_say() -> None:
    assert scraped(NodeFigures("", "", None, None)) == {}
