"""Percentiles from the histograms of a gateway."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as PrometheusHistogram

from control.fleet.latency import Histogram, gateway_figures
from control.gateway.metrics import GatewayMetrics

BOUNDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
ROUNDING = 1e-12
samples = st.lists(st.floats(0.001, 9.99), min_size=1, max_size=60)


def histogram(values: list[float]) -> Histogram:
    counts = [float(sum(v <= bound for v in values)) for bound in (*BOUNDS, math.inf)]
    return Histogram((*BOUNDS, math.inf), tuple(counts))


@settings(deadline=None)
@given(samples, st.sampled_from([1.0, 50.0, 90.0, 99.0, 100.0]))
def test_a_percentile_lies_in_the_bucket_of_the_sample_that_it_is(values: list[float], percent: float) -> None:
    exact = float(np.percentile(values, percent, method="inverted_cdf"))
    edges = (0.0, *BOUNDS)
    bucket = int(np.searchsorted(edges, exact, side="left"))
    found = histogram(values).percentile(percent)
    assert found is not None
    assert edges[bucket - 1] * (1 - ROUNDING) <= found <= edges[bucket] * (1 + ROUNDING)


@settings(deadline=None)
@given(samples)
def test_percentiles_rise(values: list[float]) -> None:
    found = [histogram(values).percentile(percent) or 0.0 for percent in range(1, 101)]
    assert all(one <= other * (1 + ROUNDING) for one, other in pairwise(found))


def test_evenly_spread_samples_are_met_nearly_exactly() -> None:
    values = list(np.linspace(0.0005, 9.9995, 10_000))
    for percent in (50.0, 90.0, 99.0):
        assert histogram(values).percentile(percent) == pytest.approx(np.percentile(values, percent), rel=1e-3)


def test_without_observations_there_is_no_percentile_and_beyond_the_last_bound_it_is_infinite() -> None:
    assert Histogram((), ()).percentile(50) is None
    assert histogram([]).percentile(50) is None
    assert histogram([60.0]).percentile(50) == math.inf
    assert histogram([0.1, 60.0]).percentile(50) == pytest.approx(0.1)
    assert histogram([0.1, 60.0]).percentile(99) == math.inf


def test_what_a_gateway_says_is_read_by_model() -> None:
    metrics = GatewayMetrics()
    for model, seconds in (("a", 0.3), ("a", 0.4), ("b", 70.0)):
        metrics.first_token_s.labels(model).observe(seconds)
        metrics.per_token_s.labels(model).observe(seconds / 100)
    metrics.output_tokens.labels("a").inc(7)
    metrics.resumptions.labels("a", "engine").inc(2)
    metrics.resumptions.labels("a", "lost").inc()
    figures = gateway_figures(metrics.text().decode())
    assert set(figures) == {"a", "b"}
    assert (figures["a"].ttft_s.total, figures["b"].ttft_s.total) == (2, 1)
    assert (figures["a"].output_tokens, figures["a"].resumptions, figures["b"].resumptions) == (7, 3, 0)
    half = figures["a"].ttft_s.percentile(50)
    assert half is not None
    assert 0.1 < half < 0.6


def test_a_gateway_that_has_served_nobody_has_no_figures() -> None:
    assert gateway_figures(GatewayMetrics().text().decode()) == {}
    assert gateway_figures("") == {}


def test_a_model_may_have_any_name() -> None:
    registry = CollectorRegistry()
    name = 'od"d\\na\nme'
    made = PrometheusHistogram(
        "medley_gateway_time_to_first_token_seconds", "x", ("model",), buckets=BOUNDS, registry=registry
    )
    made.labels(name).observe(0.3)
    assert gateway_figures(generate_latest(registry).decode())[name].ttft_s.total == 1
