"""Published runs on A100 and L40S, and deployments that nothing was fitted to."""

from types import ModuleType

import numpy as np
import pytest

from bench import published_loads, published_runs
from bench.extracts import perf_tables
from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.deployment import deployment_of
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.step_time_errors import load_step_time_errors
from templates_lib.values.hardware import load_gpus


def test_nine_published_runs_in_ten_are_within_a_factor_of_two_of_the_estimate_and_none_beyond_three() -> None:
    found = published_runs.ratios(estimated_cost_model(load_gpus()))
    assert found.keys() == {("prompt", "splitwise"), ("prompt", "qwen"), ("token", "qwen")}
    together = np.concatenate(list(found.values()))
    assert len(together) > len(published_runs.runs())
    assert 1 / 3 < together.min() <= together.max() < 3
    assert np.mean((together > 0.5) & (together < 2)) >= 0.9


@pytest.mark.parametrize("published", [published_runs, published_loads], ids=lambda each: each.GPU)
def test_what_plans_say_of_a_gpu_without_deployments_is_what_published_runs_show(published: ModuleType) -> None:
    held_out = load_step_time_errors().engines["vllm"][published.GPU].estimated
    assert held_out.gpu_out == published.medians()


def test_servers_under_load_have_the_requests_in_flight_that_their_times_and_rate_say() -> None:
    for _, run in published_loads.deployments():
        seconds = (run.ttft_ms + (run.output_tokens - 1) * run.tpot_ms) / 1e3
        assert 0.9 < run.concurrency / seconds < 9
        assert run.model.kv_element_bytes == 2
    off = published_loads.ratios()
    assert (off.shape, int(np.isfinite(off[:, 0]).sum())) == ((14, 3), 4)
    on_one = off[[run.prefill.parallel.tp == 1 for _, run in published_loads.deployments()], :2]
    assert len(on_one) == published_loads.medians().rows == 10
    assert 2 / 3 < np.nanmin(on_one) <= np.nanmax(on_one) < 1.5


def test_what_plans_say_of_step_times_is_of_the_coefficients_that_ship() -> None:
    assert load_step_time_errors().coefficients == load_coefficients().fingerprint


def test_the_rest_of_the_sample_repeats_no_measurement_that_engines_are_fitted_to() -> None:
    pytest.importorskip("aiconfigurator_core")
    fitted = {(row["silicon_ttft_ms"], row["silicon_tpot_ms"]) for row in perf_tables.deployment_rows()}
    unseen = {(row["silicon_ttft_ms"], row["silicon_tpot_ms"]) for row in perf_tables.unseen_rows()}
    assert len(unseen) > 1000
    assert not fitted & unseen


@pytest.mark.parametrize(("source", "share"), [("aic-auto-gap-analysis/h100.csv", 1.0), ("db-dump/2026-03-01", 0.9)])
def test_rows_are_read_with_the_mean_lengths_that_their_clients_sent(source: str, share: float) -> None:
    row = next(perf_tables.deployment_rows())
    called = deployment_of(row)
    sent = perf_tables.as_sent(row | {"silicon_data_source": source}, called)
    assert sent.prompt_tokens == pytest.approx(share * called.prompt_tokens)
    assert sent.output_tokens == pytest.approx(share * called.output_tokens)
