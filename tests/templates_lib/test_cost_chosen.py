"""Which source step times come from, where nobody measured them on the node."""

from dataclasses import replace

import numpy as np
import pytest

from templates_lib.cost import chosen
from templates_lib.cost.chosen import ChosenCostModel, cards_by_kernels, unmeasured_cost_model
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.step_time_errors import load_step_time_errors
from templates_lib.models.catalogue import load_models
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.settings import StepTimes

GPUS, MODELS = load_gpus(), load_models()
STEP = NodeStep(*(np.array(v) for v in (4.0, 30.0, 15.0, 8.0, 100.0)))


@pytest.fixture
def kernels_win_on_l40s(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_step_time_errors()
    better = replace(known.engines["vllm"]["H100"], chosen="kernels")
    others = {name: replace(each, chosen="estimated") for name, each in known.engines["vllm"].items()}
    engines = {"vllm": others | {"L40S": better}}
    monkeypatch.setattr(chosen, "load_step_time_errors", lambda: replace(known, engines=engines))


@pytest.mark.parametrize("wanted", [StepTimes.BEST, StepTimes.ESTIMATED])
def test_without_the_package_times_and_fingerprints_are_the_estimates(
    wanted: StepTimes, kernels_win_on_l40s: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen, "installed_release", lambda: "")
    for engine in ("vllm", "torch"):
        found = unmeasured_cost_model(GPUS, engine, wanted)
        assert found.fingerprint == estimated_cost_model(GPUS, engine).fingerprint


def test_the_best_are_kernels_only_where_the_shipped_comparison_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "installed_release", lambda: "0.12.0")
    for engine in ("vllm", "torch"):
        expected = {n for n, each in load_step_time_errors().engines["vllm"].items() if each.chosen == "kernels"}
        assert set(cards_by_kernels(GPUS, engine, StepTimes.BEST)) == expected - {"all"}


def test_kernels_that_are_wanted_and_not_installed_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("templates_lib.cost.kernel_based.installed_release", lambda: "")
    with pytest.raises(ValueError, match=r"step_times.*\[kernels\]"):
        unmeasured_cost_model(GPUS, "vllm", StepTimes.KERNELS)


@pytest.mark.needs("kernels")
def test_kernels_are_asked_where_they_were_chosen_and_timed_and_the_estimate_elsewhere(
    kernels_win_on_l40s: None,
) -> None:
    found, estimate = unmeasured_cost_model(GPUS, "vllm", StepTimes.BEST), estimated_cost_model(GPUS, "vllm")
    assert isinstance(found, ChosenCostModel)
    assert found.fingerprint != estimate.fingerprint
    for model, config, source in (
        ("qwen3-32b", "L40S:1/n25", "kernels"),
        ("smollm2-135m-instruct", "L40S:1/n25", "estimated"),
        ("qwen3-32b", "H100:1/n25", "estimated"),
    ):
        node = node_config_from_id(config)
        by = found.of(MODELS[model], node, Parallel())
        assert by.source == source
        ours, theirs, own = (
            float(each.stage_seconds(MODELS[model], node, Parallel(), STEP, head=True))
            for each in (found, estimate, by)
        )
        assert ours == own
        assert (ours == theirs) == (source == "estimated")
        assert found.transfer_bytes_per_s(MODELS[model], node) == estimate.transfer_bytes_per_s(MODELS[model], node)
