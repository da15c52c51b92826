"""Small kernels of a layer by card, and the estimate with more time a layer."""

import numpy as np
import pytest

from bench import a100_steps, small_kernels
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.node_config import NodeConfig


def row(gpu: str, model: str, ms: float, tp: int = 1, tokens: int = 1, **more: str) -> dict[str, str]:
    times = dict.fromkeys(small_kernels.SMALL, str(ms))
    return {"gpu": gpu, "model": model, "tp": str(tp), "num_tokens": str(tokens), **times, **more}


def test_cards_are_compared_by_the_medians_of_models_that_both_have(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        *(row("a100", "a", ms) for ms in (0.004, 0.006, 0.9)),
        row("a100", "a", 7.0, tp=2),
        row("a100", "a", 7.0, tokens=8),
        row("a100", "other", 7.0),
        row("h100", "a", 0.004),
        row("h100", "b", 7.0, mlp_act_ms=""),
    ]
    monkeypatch.setattr(small_kernels, "rows_of", lambda _: iter(rows))
    timed = small_kernels.small_kernels()
    assert timed.keys() == {("a100", "a"), ("a100", "other"), ("h100", "a")}
    assert small_kernels.longer_s(timed, "a100", "h100") == {"a": pytest.approx(5 * 2e-6)}


def test_the_estimate_takes_so_much_more_for_each_layer() -> None:
    model, none = a100_steps.llama(*a100_steps.SIZES["llama-7b"]), np.zeros(())
    node, step = (
        NodeConfig("A100-80:1", "A100-80", 1, 0.0, 0.0, 0.0),
        NodeStep(none + 32, none, none, none + 1, none + 9),
    )
    plain, more = (
        float(small_kernels.estimate(more_s).stage_seconds(model, node, Parallel(), step, head=True))
        for more_s in (0.0, 5e-6)
    )
    assert more - plain == pytest.approx(32 * 5e-6)
