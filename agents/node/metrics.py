"""A node's metrics for Prometheus: its engine's under vLLM's names, so that dashboards made for vLLM work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agents.messages.to_gateway import Stats
from agents.messages.to_hub import StageReport


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Figures of one of a node's executors, made when they are asked for."""

    instance: str
    model: str
    stage: StageReport | None
    stats: Stats | None
    """On the node that runs the instance's scheduler."""


def serve_metrics(interface: str, figures: Callable[[], Iterable[NodeFigures]]) -> str:
    """Answer GET /metrics on any free port of `interface`, from threads of its own; the URL. Raises OSError."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_NodeCollector(figures))
    server, _ = start_http_server(0, interface, registry)
    host = f"[{interface}]" if ":" in interface else interface
    return f"http://{host}:{server.server_port}/metrics"


class _NodeCollector(Collector):
    def __init__(self, figures: Callable[[], Iterable[NodeFigures]]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for metric in (each for one in self._figures() for each in (*_of_stage(one), *_of_engine(one))):
            if (known := families.setdefault(metric.name, metric)) is not metric:
                known.samples += metric.samples
        yield from families.values()


def _of_stage(figures: NodeFigures) -> Iterable[Metric]:
    if (stage := figures.stage) is None:
        return
    labels = {"instance_id": figures.instance, "model_name": figures.model}
    yield _gauge("medley_stage_cpu_share", "Processors that the engine keeps busy", stage.cpu_share, labels)
    yield _gauge("medley_stage_resident_memory_bytes", "Of the engine", stage.memory_mib * 2.0**20, labels)
    yield _gauge("medley_stage_up_seconds", "Since the engine was started", stage.running_s, labels)


def _of_engine(figures: NodeFigures) -> Iterable[Metric]:
    if (stats := figures.stats) is None:
        return
    labels = {"instance_id": figures.instance, "model_name": figures.model}
    status, done = stats.status, stats.done
    used = 1 - status.kv_blocks_free / status.kv_blocks if status.kv_blocks else 0.0
    yield _gauge("vllm:num_requests_running", "Requests in the running batch", status.running, labels)
    yield _gauge("vllm:num_requests_waiting", "Requests waiting to be admitted", status.waiting, labels)
    yield _gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 1 is all", used, labels)
    yield _counter("vllm:prompt_tokens", "Prompt tokens computed", done.prompt_tokens, labels)
    yield _counter("vllm:generation_tokens", "Tokens generated", stats.generated_tokens, labels)
    yield _counter("vllm:num_preemptions", "Requests that gave up their KV cache", done.preemptions, labels)
    if done.looked_up_tokens:  # vLLM's own scheduler does not say
        looked_up, found = done.looked_up_tokens, done.found_tokens
        yield _counter("vllm:prefix_cache_queries", "Tokens looked up in the prefix cache", looked_up, labels)
        yield _counter("vllm:prefix_cache_hits", "Tokens found there, and not computed", found, labels)
    if done.draft_tokens:
        drafted, accepted = done.draft_tokens, done.accepted_tokens
        yield _counter("vllm:spec_decode_num_draft_tokens", "Tokens of answers that were drafted", drafted, labels)
        yield _counter("vllm:spec_decode_num_accepted_tokens", "Drafted tokens that were right", accepted, labels)
    finished = CounterMetricFamily(
        "vllm:request_success", "Requests that ended well, by reason", labels=[*labels, "finished_reason"]
    )
    for reason, count in stats.finished.items():
        finished.add_metric([*labels.values(), reason.value], count)
    yield finished
    failed = CounterMetricFamily("medley_request_failures", "Requests given back, by why", labels=[*labels, "failure"])
    for failure, count in stats.failed.items():
        failed.add_metric([*labels.values(), failure.value], count)
    yield failed
    by_node = [*labels, "node"]
    busy = CounterMetricFamily("medley_stage_busy_seconds", "In steps, by node", labels=by_node)
    read = GaugeMetricFamily("medley_stage_weights_read_bytes", "Of the checkpoint, as stored", labels=by_node)
    reading = GaugeMetricFamily("medley_stage_load_seconds", "To read weights and put them in place", labels=by_node)
    for node in done.nodes:
        own = [*labels.values(), node.node]
        busy.add_metric(own, node.busy_s)
        read.add_metric(own, node.loaded_bytes)
        reading.add_metric(own, node.load_s)
    yield from (busy, read, reading)
    yield _counter("medley_kv_sent_bytes", "KV cache handed to the next leg", done.sent_kv_bytes, labels)
    yield _counter("medley_kv_received_bytes", "KV cache taken from the leg before", done.received_kv_bytes, labels)


def _gauge(name: str, about: str, value: float, labels: dict[str, str]) -> Metric:
    metric = GaugeMetricFamily(name, about, labels=list(labels))
    metric.add_metric(list(labels.values()), value)
    return metric


def _counter(name: str, about: str, value: float, labels: dict[str, str]) -> Metric:
    metric = CounterMetricFamily(name, about, labels=list(labels))
    metric.add_metric(list(labels.values()), value)
    return metric
