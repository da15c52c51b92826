"""Published runs on A100, and deployments that nothing was fitted to."""

import numpy as np
import pytest

from bench import published_runs
from bench.extracts import perf_tables
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
    low, high = np.percentile(together, (5, 95))
    assert 0.5 < low < high < 2


def test_what_plans_say_of_an_a100_is_what_these_runs_show() -> None:
    held_out = load_step_time_errors().engines["vllm"][published_runs.GPU].estimated
    assert held_out.gpu_out == published_runs.medians()


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
