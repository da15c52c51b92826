"""Metrics of several workers as those of one gateway."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from control.gateway.metrics import GatewayMetrics, Merging

_CREATED = "_created"
"""End of the names of samples that say since when something is counted."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    name: str
    labels: dict[str, str]
    value: float


class Family(msgspec.Struct, frozen=True, array_like=True):
    """A metric with all its samples at one moment."""

    name: str
    about: str
    type: str
    """`counter`, `gauge` or `histogram`."""
    merging: Merging
    samples: list[Sample]


def families_of(metrics: GatewayMetrics) -> list[Family]:
    return [
        Family(
            found.name,
            found.documentation,
            found.type,
            metrics.merging.get(found.name, Merging.SUM),
            [Sample(each.name, dict(each.labels), each.value) for each in found.samples],
        )
        for found in metrics.registry.collect()
    ]


def merged(live: Sequence[Sequence[Family]], past: Sequence[Family] = ()) -> list[Family]:
    """Return one value for each thing that workers count. `live`: of each that runs; `past`: counts of those that
    ended, which stay in the sums, so that no counter goes back."""
    found: dict[str, Family] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]] = {}
    for family in (each for state in (*live, past) for each in state):
        found.setdefault(family.name, family)
        of_family = values.setdefault(family.name, {})
        for sample in family.samples:
            of_family.setdefault((sample.name, tuple(sorted(sample.labels.items()))), []).append(sample.value)
    return [
        msgspec.structs.replace(
            family,
            samples=[
                Sample(sample, dict(labels), _one(family.merging, sample, of_all, len(live)))
                for (sample, labels), of_all in values[name].items()
            ],
        )
        for name, family in found.items()
    ]


def lasting(families: Iterable[Family]) -> list[Family]:
    """Return those whose values stay true when their worker is gone."""
    return [each for each in families if each.type != "gauge"]


def text(families: Iterable[Family]) -> bytes:
    """Return them in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Given(families))
    return generate_latest(registry)


def _one(merging: Merging, sample: str, values: Sequence[float], workers: int) -> float:
    if sample.endswith(_CREATED) or merging is Merging.LEAST:
        return min(values)
    if merging is Merging.ALL:
        return min(values) if len(values) == workers else 0.0
    return max(values) if merging is Merging.MOST else sum(values)


class _Given(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = Metric(family.name, family.about, family.type)
            for sample in family.samples:
                metric.add_sample(sample.name, sample.labels, sample.value)
            yield metric
