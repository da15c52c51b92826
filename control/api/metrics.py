"""Metrics of an API process in Prometheus' format, base units."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)


class ApiMetrics:
    """Metrics of one app, in a registry of its own, so that two apps in a process do not collide."""

    def __init__(self, *collectors: Collector) -> None:
        """`collectors`: further metrics, besides what the process counts itself."""
        self._registry = CollectorRegistry()
        for collector in collectors:
            self._registry.register(collector)
        labels = ("method", "route")
        self._requests = Counter(
            "medley_api_requests", "Requests answered.", (*labels, "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "medley_api_request_seconds",
            "From a request to the start of its answer.",
            labels,
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self.followers = Gauge("medley_api_followers", "Streams of events that are open.", registry=self._registry)
        self.open_operations = Gauge(
            "medley_api_open_operations", "Operations queued or running, of all processes.", registry=self._registry
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
