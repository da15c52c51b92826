"""Percentiles from the histograms that gateways publish in Prometheus' text format."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of observations by upper bound, cumulative, bounds rising, the last infinite."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def total(self) -> float:
        return self.counts[-1] if self.counts else 0.0

    def since(self, before: "Histogram") -> "Histogram":
        """Return what was observed after `before`; all of it where the gateway has started anew meanwhile."""
        if before.bounds != self.bounds or before.total > self.total:
            return self
        return Histogram(self.bounds, tuple(now - was for now, was in zip(self.counts, before.counts, strict=True)))

    def percentile(self, percent: float) -> float | None:
        """Interpolated in its bucket, as Prometheus' histogram_quantile; None without observations, infinite beyond the
        last finite bound."""
        if not self.total:
            return None
        rank, before, low = self.total * percent / 100, 0.0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= rank:
                if math.isinf(bound):
                    return math.inf
                return low + (bound - low) * (rank - before) / (count - before) if count > before else bound
            before, low = count, bound
        return math.inf


@dataclass(frozen=True, slots=True)
class GatewayFigures:
    """Figures of one model at one gateway, since that started."""

    ttft_s: Histogram
    tpot_s: Histogram
    prompt_tokens: float
    output_tokens: float
    resumptions: float
    late_refusals: float
    judged: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """(work class, objective) → answers, and those of them that kept it."""


def figures_together(parts: Iterable[GatewayFigures]) -> GatewayFigures | None:
    """Return the figures of models that clients know as one, such as the request types of an app; None: there are
    none."""
    listed = list(parts)
    if not listed:
        return None
    judged: dict[tuple[str, str], tuple[float, float]] = {}
    for key, (answers, kept) in (item for each in listed for item in each.judged.items()):
        before = judged.get(key, (0.0, 0.0))
        judged[key] = before[0] + answers, before[1] + kept
    return GatewayFigures(
        _summed([each.ttft_s for each in listed]),
        _summed([each.tpot_s for each in listed]),
        sum(each.prompt_tokens for each in listed),
        sum(each.output_tokens for each in listed),
        sum(each.resumptions for each in listed),
        sum(each.late_refusals for each in listed),
        judged,
    )


def _summed(parts: Sequence[Histogram]) -> Histogram:
    """All of a gateway's have the same bounds, or none yet."""
    there = [each for each in parts if each.bounds] or [parts[0]]
    return Histogram(there[0].bounds, tuple(map(sum, zip(*(each.counts for each in there), strict=True))))


def gateway_figures(text: str) -> dict[str, GatewayFigures]:
    """Read the figures of each model. Raises ValueError for a text that is not Prometheus'."""
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    models = sorted({s.labels["model"] for s in samples if "model" in s.labels})

    def histogram(name: str, model: str) -> Histogram:
        found = [(float(s.labels["le"]), s.value) for s in samples if _is(s.name, s.labels, f"{name}_bucket", model)]
        found.sort()
        return Histogram(tuple(bound for bound, _ in found), tuple(count for _, count in found))

    def total(name: str, model: str) -> float:
        return sum(s.value for s in samples if _is(s.name, s.labels, f"{name}_total", model))

    def judged(model: str) -> dict[tuple[str, str], tuple[float, float]]:
        found: dict[tuple[str, str], tuple[float, float]] = {}
        for s in samples:
            if _is(s.name, s.labels, "medley_gateway_judged_answers_total", model):
                key = s.labels["work_class"], s.labels["objective"]
                answers, kept = found.get(key, (0.0, 0.0))
                found[key] = answers + s.value, kept + s.value * (s.labels["kept"] == "true")
        return found

    return {
        model: GatewayFigures(
            histogram("medley_gateway_time_to_first_token_seconds", model),
            histogram("medley_gateway_time_per_output_token_seconds", model),
            total("medley_gateway_prompt_tokens", model),
            total("medley_gateway_output_tokens", model),
            total("medley_gateway_resumptions", model),
            total("medley_gateway_late_refusals", model),
            judged(model),
        )
        for model in models
    }


def _is(name: str, labels: dict[str, str], wanted: str, model: str) -> bool:
    return name == wanted and labels.get("model") == model
