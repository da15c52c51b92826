"""What is said of how near the optimum a plan is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.planning.proof import proof_text


@pytest.mark.parametrize(
    ("status", "gap", "tolerance", "said"),
    [
        ("optimal", 0.0, 0.02, "optimal"),
        ("optimal", 3e-9, None, "optimal"),
        ("optimal", 0.019, 0.02, "within 1.90% of the optimum (tolerance 2%)"),
        ("optimal", 0.000_03, 0.001, "within 0.01% of the optimum (tolerance 0.1%)"),
        ("optimal", 0.019, None, "within 1.90% of the optimum"),
        ("feasible", 0.05, 0.02, "within 5.00% of the optimum (tolerance 2% not met)"),
        ("feasible", 0.05, None, "within 5.00% of the optimum (tolerance not met)"),
        ("feasible", 1.0, 0.02, "nothing proven"),
        ("partial", 1.0, None, "partial, nothing proven"),
        ("partial", 0.0, 0.02, "partial, at the least cost of what it serves"),
        ("partial", 0.0123, 0.02, "partial, within 1.23% of the least cost of what it serves"),
    ],
)
def test_the_gap_that_is_left_is_said(status: str, gap: float, tolerance: float | None, said: str) -> None:
    assert proof_text(status, gap, tolerance) == said


@given(st.sampled_from(["optimal", "feasible", "partial"]), st.floats(0, 1))
def test_no_more_is_said_than_is_proven(status: str, gap: float) -> None:
    text = proof_text(status, gap)
    said = re.search(r"within ([0-9.]+)%", text)
    if said is not None:
        assert gap <= float(said[1]) / 100 + 1e-9
    else:
        assert gap == 1 if "nothing proven" in text else gap <= 1e-6
