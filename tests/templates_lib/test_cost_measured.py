"""The measured cost model: what is fitted comes back, nothing is negative, and the estimate fills the gaps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.fit import UnfittableError, fit_step_terms, non_negative_least_squares, predicted
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.measured import MeasuredCostModel
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.cost.step_terms import step_terms
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.throughput.phases import node_phases
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.node_profile import NodeProfile, ProfileErrors
from templates_lib.values.pair_cost import HopTime, PairCost
from templates_lib.values.profile_row import ProfileRow
from templates_lib.values.slo import Slo
from templates_lib.values.work import Phase

MODEL = load_models()["smollm2-135m-instruct"]
LARGE = load_models()["qwen3-32b"]
FOUR = node_config_from_id("L40S:4/n100")
NODE, OTHER = node_config_from_id("L4:1/n10"), node_config_from_id("L40S:1/n25")
STEP = NodeStep(*(np.array(v) for v in (4.0, 30.0, 15.0, 8.0, 100.0)))
PIPELINE = PipelineCost(1e-3, 1e-6, 1e-5, 5e-4, 1e-4, 0.02)
HAND_OFF = HandOffCost(send_cpu_s_per_byte=2e-9, take_cpu_s_per_byte=5e-10)
TRUE_S = {
    "step": 1e-3, "token": 2e-6, "layer": 2e-3, "layer_few_rows": 1e-3, "layer_row": 3e-4,
    "layer_wide_row": 5e-5, "layer_mixed": 2e-4,
    "layer_prompt_attention": 1e-7, "layer_request": 1e-5, "layer_decode_attention": 5e-7,
    "head": 8e-3, "head_few_rows": 6e-3, "head_row": 1e-3,
}  # fmt: skip


def rows(noise: float, seed: int = 0) -> list[ProfileRow]:
    """A sweep of a node that takes exactly what TRUE_S says, but for `noise`."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(60):
        kind = rng.integers(3)
        prompts, requests = int(kind != 0) * rng.integers(1, 600), int(kind != 1) * rng.integers(1, 33)
        if number % 4 == 1:
            prompts, requests = 0, 1
        row = ProfileRow(
            int(rng.integers(1, 8)), False, bool(rng.integers(2)), int(prompts), float(rng.uniform(0, 500)),
            int(requests), float(rng.uniform(0, 900)), 1.0, number % 5 == 0,
        )  # fmt: skip
        made.append(replace(row, seconds=float(predicted(TRUE_S, [row])[0] * (1 + noise * rng.uniform(-1, 1)))))
    return made


def profile(seconds: dict[str, float], **other: str) -> NodeProfile:
    fields = {"engine": "torch", "model": MODEL.id, "dtype": MODEL.dtype, "config": NODE.id} | other
    errors = ProfileErrors(1, 0, 0)
    return NodeProfile(
        "s", "2026-11-21", "a machine", **fields, cpu_cores=0.5, step_terms_s=seconds, errors=errors,
        pipeline=PIPELINE, hand_off=HAND_OFF,
    )  # fmt: skip


def test_exact_times_are_fitted_exactly() -> None:
    found, errors = fit_step_terms(rows(noise=0.0))
    assert found == pytest.approx(TRUE_S, rel=1e-4)
    assert errors.rows == 12
    assert errors.worst < 1e-4


def test_a_profile_from_before_there_was_a_term_is_read_as_without_it() -> None:
    older = {name: seconds for name, seconds in TRUE_S.items() if name != "layer_wide_row"}
    wide = NodeStep(*(np.array(v) for v in (4.0, 300.0, 15.0, 8.0, 100.0)))
    both = [
        MeasuredCostModel("torch", [profile(s)], estimated_cost_model(load_gpus(), "torch")) for s in (older, TRUE_S)
    ]
    less, more = (float(model.stage_seconds(MODEL, NODE, Parallel(), wide, head=True)) for model in both)
    assert more - less == pytest.approx(4 * 192 * 5e-5 * 0.5 / 0.48)


def test_noisy_times_give_an_honest_error_and_no_negative_term() -> None:
    found, errors = fit_step_terms(rows(noise=0.2))
    assert min(found.values()) >= 0
    assert 0.01 < errors.median <= errors.worst < 0.5


@pytest.mark.parametrize("broken", [[], rows(0.0)[:8], [replace(r, held_out=False) for r in rows(0.0)]])
def test_too_little_to_fit_is_refused(broken: list[ProfileRow]) -> None:
    with pytest.raises(UnfittableError):
        fit_step_terms(broken)


def test_a_time_that_cannot_be_is_refused() -> None:
    with pytest.raises(UnfittableError, match="above 0"):
        fit_step_terms([*rows(0.0), replace(rows(0.0)[0], seconds=0.0)])


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), tall=st.integers(0, 12), wide=st.integers(1, 8))
def test_least_squares_is_as_good_as_scipys(seed: int, tall: int, wide: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(wide + tall, wide)) * 10.0 ** rng.integers(-4, 4, wide)
    target = rng.normal(size=wide + tall)
    found = non_negative_least_squares(features, target)
    assert (found >= 0).all()
    _, best = nnls(features, target)
    assert np.linalg.norm(features @ found - target) == pytest.approx(best, rel=1e-6, abs=1e-9)


def test_a_profile_beats_the_estimate_and_nothing_else_changes() -> None:
    estimate = estimated_cost_model(load_gpus(), "torch")
    model = MeasuredCostModel("torch", [profile(TRUE_S), profile(TRUE_S, engine="vllm", config=OTHER.id)], estimate)
    measured = model.stage_seconds(MODEL, NODE, Parallel(), STEP, head=True)
    beside = (1e-3 + 1e-6 * 38 + 1e-5 * 8 + 5e-4) / 0.48
    engine = sum(TRUE_S[n] * v for n, v in step_terms(STEP, head=True).items()) * 0.5 / 0.48
    assert measured == pytest.approx(engine + beside)
    assert model.hop_seconds(MODEL, NODE, np.ones(3)).tolist() == [1e-4] * 3
    assert model.transfer_bytes_per_s(MODEL, NODE) == pytest.approx(0.24e9)
    assert model.hand_off_s_per_byte(MODEL, NODE) == pytest.approx((2e-9 / 0.48, 5e-10 / 0.48))
    assert model.hand_off_s_per_byte(MODEL, OTHER) == (0.0, 0.0)
    assert model.transfer_bytes_per_s(MODEL, OTHER) == estimate.transfer_bytes_per_s(MODEL, OTHER)
    assert model.stage_seconds(MODEL, NODE, Parallel(), STEP, head=False) < measured
    for head in (False, True):
        other = model.stage_seconds(MODEL, OTHER, Parallel(), STEP, head=head)
        assert other == estimate.stage_seconds(MODEL, OTHER, Parallel(), STEP, head=head)
    assert model.profile(replace(MODEL, dtype="bf16"), NODE) is None
    assert model.source == "measured"
    assert model.fingerprint != estimate.fingerprint


def test_without_profiles_it_is_the_estimate() -> None:
    estimate = estimated_cost_model(load_gpus(), "vllm")
    model = MeasuredCostModel("vllm", [profile(TRUE_S)], estimate)
    assert (model.source, model.fingerprint) == ("estimated", estimate.fingerprint)


@pytest.mark.parametrize("field", ["layers", "prompt_tokens", "prompt_context", "decode_requests", "decode_context"])
@pytest.mark.parametrize("head", [False, True])
def test_more_of_anything_never_takes_less_time(field: str, head: bool) -> None:
    model = MeasuredCostModel("torch", [profile(TRUE_S)], estimated_cost_model(load_gpus(), "torch"))
    rising = replace(STEP, **{field: np.arange(1.0, 40.0)})
    assert (np.diff(model.stage_seconds(MODEL, NODE, Parallel(), rising, head=head)) >= 0).all()


def test_a_node_whose_gpu_was_measured_leaves_its_processors_to_links_and_keeps_no_quota() -> None:
    estimate = estimated_cost_model(load_gpus(), "torch")
    measured = replace(profile(TRUE_S), device="cuda", cpu_cores=8.0)
    model, tokens = MeasuredCostModel("torch", [measured], estimate), np.array([1.0, 500.0])
    computed = float(predicted(TRUE_S, [ProfileRow(4, False, True, 30, 15.0, 8, 100.0, 1.0, False)])[0])
    assert float(model.stage_seconds(MODEL, NODE, Parallel(), STEP, head=True)) >= computed
    assert model.processor_cores(MODEL, NODE) is None
    assert model.hand_off_s_per_byte(MODEL, NODE) == (0.0, 0.0)
    assert model.hop_seconds(MODEL, NODE, tokens).tolist() == estimate.hop_seconds(MODEL, NODE, tokens).tolist()
    assert model.transfer_bytes_per_s(MODEL, NODE) == estimate.transfer_bytes_per_s(MODEL, NODE)

    pair = PairCost((HopTime(1, 1e-3), HopTime(1000, 2e-3)), "NCCL", 3e9)
    paired = MeasuredCostModel("torch", [replace(measured, pair=pair)], estimate)
    assert paired.hop_seconds(MODEL, NODE, tokens).tolist() == pair.hop_seconds(tokens).tolist()
    assert paired.transfer_bytes_per_s(MODEL, NODE) == 3e9
    assert paired.fingerprint != model.fingerprint


def several(count: int, seconds: dict[str, float] = TRUE_S) -> NodeProfile:
    """Of a node of `count` L40S, over which layers are cut by heads."""
    measured = profile(seconds, model=LARGE.id, dtype=LARGE.dtype, config=f"L40S:{count}/n100")
    return replace(measured, device="cuda", cpu_cores=8.0, tensor_parallel=count)


def engine_s(seconds: dict[str, float], step: NodeStep) -> float:
    return float(sum(seconds[name] * amount for name, amount in step_terms(step, head=True).items()))


def test_a_node_of_several_gpus_takes_what_was_measured_of_its_split_and_of_its_replicas() -> None:
    estimate = estimated_cost_model(load_gpus(), "torch")
    slower = {name: 3 * seconds for name, seconds in TRUE_S.items()}
    model = MeasuredCostModel("torch", [several(4), several(2, slower)], estimate)
    assert set(model.measured_splits(LARGE, FOUR)) == {Parallel(tp=4), Parallel(tp=2, dp=2)}

    def seconds(parallel: Parallel) -> float:
        return float(model.stage_seconds(LARGE, FOUR, parallel, STEP, head=True))

    cores = 8 / (8 - PIPELINE.waiting_cores)
    beside = PIPELINE.step_cpu_s + PIPELINE.row_cpu_s * 38 + PIPELINE.request_cpu_s * 8 + PIPELINE.prompt_cpu_s
    assert seconds(Parallel(tp=4)) == pytest.approx(engine_s(TRUE_S, STEP) * cores + beside)
    half = replace(STEP, prompt_tokens=np.array(15.0), decode_requests=np.array(4.0))
    assert seconds(Parallel(tp=2, dp=2)) == pytest.approx(engine_s(slower, half) * cores + beside)
    for other in (Parallel(dp=4), Parallel(tp=2, pp=2), Parallel(tp=4, ep=4)):
        assert seconds(other) == float(estimate.stage_seconds(LARGE, FOUR, other, STEP, head=True))
    assert model.processor_cores(LARGE, FOUR) is None


def test_plans_choose_among_the_splits_that_were_measured_and_among_all_where_none_was() -> None:
    gpus = load_gpus()
    served = ServedModel("large", LARGE, Slo(1500.0, 60.0), load_shape("azure-code"), engine="torch")

    def chosen(*profiles: NodeProfile) -> set[Parallel]:
        times = MeasuredCostModel("torch", profiles, estimated_cost_model(gpus, "torch"))
        works = node_phases(served, Phase.PREFILL, gpus, times).works(FOUR)
        return {work.split.parallel for work in works}

    assert chosen(several(4)) == {Parallel(tp=4)}
    assert chosen(several(1), several(4)) == {Parallel(tp=4), Parallel(dp=4)}
    assert chosen(several(1), several(2)) == chosen() > {Parallel(tp=4), Parallel(dp=4), Parallel(pp=4)}
