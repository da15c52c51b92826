"""What a gateway counts, for Prometheus; base units, prefix `medley_gateway_`."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_PREFIX = "medley_gateway_"
_LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_PER_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.4, 0.8, 2)


class Merging(StrEnum):
    """How the values that several workers of one gateway have for the same thing become one."""

    SUM = "sum"
    MOST = "most"
    LEAST = "least"
    ALL = "all"
    """The least, 0 where a worker has none."""


class GatewayMetrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.merging: dict[str, Merging] = {}
        """Of gauges, by name; all else adds up."""

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(_PREFIX + name, about, labels, registry=registry)

        def gauge(name: str, about: str, *labels: str, merging: Merging = Merging.SUM) -> Gauge:
            self.merging[_PREFIX + name] = merging
            return Gauge(_PREFIX + name, about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(_PREFIX + name, about, ("model",), buckets=buckets, registry=registry)

        self.requests = counter("requests", "Answers by endpoint and status", "endpoint", "status")
        self.prompt_tokens = counter("prompt_tokens", "Tokens of admitted prompts", "model")
        self.output_tokens = counter("output_tokens", "Tokens that instances made for clients", "model")
        self.made = counter("made_units", "Seconds of audio or denoising steps made for clients", "model", "unit")
        about, labels = "Answers by whether they kept an objective", ("model", "work_class", "objective", "kept")
        self.judged = counter("judged_answers", about, *labels)
        self.resumptions = counter("resumptions", "Attempts lost and gone on with elsewhere", "model", "cause")
        self.late_refusals = counter("late_refusals", "Requests refused as they could not be begun in time", "model")
        self.disconnects = counter("disconnects", "Clients that left before the end of their answer", "model")
        self.table_errors = counter("table_errors", "Routing tables that could not be used")
        self.first_token_s = histogram("time_to_first_token_seconds", "Request to first token", _LATENCY_S)
        self.per_token_s = histogram("time_per_output_token_seconds", "Mean gap after the first token", _PER_TOKEN_S)
        self.request_s = histogram("request_seconds", "Request to last token", _LATENCY_S)
        self.unit_s = histogram("unit_seconds", "Picture or sound of a request to its rows at an executor", _LATENCY_S)
        self.first_piece_s = histogram("time_to_first_piece_seconds", "Request to first sound, or picture", _LATENCY_S)
        self.open_calls = gauge("open_calls", "Requests being answered")
        self.open_runs = gauge("open_runs", "Requests for runs of workflows being answered")
        self.held_calls = gauge("held_calls", "Requests that wait for a model that nothing serves", "model")
        self.unstored_intervals = gauge("unstored_intervals", "Of load, that the control plane does not know yet")
        self.dropped_intervals = gauge("dropped_intervals", "Of load, that it will never know")
        self.parked_calls = gauge("parked_calls", "Of them, waiting for an instance that can be used")
        self.table_version = gauge("table_version", "Version of the routing table in use", merging=Merging.LEAST)
        about = "1 when requests can go there"
        self.instance_up = gauge("instance_up", about, "instance", merging=Merging.ALL)
        about = "Requests that the instance says it runs"
        self.instance_running = gauge("instance_running", about, "instance", merging=Merging.MOST)
        about = "Requests that the instance says wait in it"
        self.instance_waiting = gauge("instance_waiting", about, "instance", merging=Merging.MOST)
        about = "KV blocks that the instance says are free"
        self.instance_kv_free = gauge("instance_kv_blocks_free", about, "instance", merging=Merging.LEAST)
        about = "Work that waits at a member of a pool under late-pull-v1, as far as this gateway knows"
        self.instance_pending_s = gauge("instance_pending_seconds", about, "instance", merging=Merging.MOST)

    def forget_instance(self, instance: str) -> None:
        for metric in (self.instance_up, self.instance_running, self.instance_waiting, self.instance_kv_free):
            if (instance,) in metric._metrics:
                metric.remove(instance)

    def text(self) -> bytes:
        return generate_latest(self.registry)
