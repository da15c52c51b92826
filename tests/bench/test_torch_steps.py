"""Steps of the torch engine that GPUs measured, and what plans make of them."""

import numpy as np
import pytest

from bench.extracts.fit_torch import GPU, ROWS, fit_torch, measured_rows, rows_in, seconds_of
from templates_lib.cost.coefficients import load_coefficients

COEFFICIENTS = load_coefficients()
FIT = fit_torch(COEFFICIENTS, measured_rows())


def test_what_plans_have_of_the_torch_engine_is_the_fit_of_the_steps_that_ship() -> None:
    assert FIT.planned == COEFFICIENTS.engine("torch")


def test_steps_of_the_fitted_gpu_that_were_held_out_are_known_within_a_tenth() -> None:
    held = [row for row in measured_rows() if row.held_out]
    found = seconds_of(held, GPU, COEFFICIENTS, FIT.alone) / [row.seconds for row in held]
    assert np.median(np.abs(found - 1)) < 0.1


@pytest.mark.parametrize("gpu", ["H100", "H200"])
def test_a_servers_step_takes_longer_than_the_engines_that_a_gpu_measures(gpu: str) -> None:
    rows = rows_in(ROWS.with_name(f"torch_{gpu.lower()}_steps.jsonl"))
    alone, planned = (seconds_of(rows, gpu, COEFFICIENTS, engine) for engine in (FIT.alone, FIT.planned))
    assert (planned > alone).all()
    measured = np.array([row.seconds for row in rows])
    assert np.median(np.abs(alone / measured - 1)) < np.median(np.abs(planned / measured - 1))
