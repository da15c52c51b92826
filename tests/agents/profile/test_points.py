"""What a sweep measures fits every model and node, and says everything about an engine that the fit asks."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from agents.engines.paced_engine import paced
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.engine import load_torch_engine
from agents.profile import measure
from agents.profile.measure import BLOCKS, block_seconds, kv_blocks, measured
from agents.profile.points import CACHE_BYTES, LEAST_LAYERS, sweeps
from agents.weights.source import open_checkpoint
from templates_lib.cost.fit import fit_step_terms
from templates_lib.values.profile_row import rows_of
from tests.agents.engines.tiny_models import LAYERS, save_model

CONTEXT, LAYER_BYTES = 256, 100_000
"""Of the tiny models."""


@pytest.mark.parametrize("layer_bytes", [10_000, 14 << 20, 1 << 30])
@pytest.mark.parametrize("layers", [LEAST_LAYERS, 6, 30, 80])
def test_ranges_lie_within_the_model_and_are_far_from_all_of_it(layers: int, layer_bytes: int) -> None:
    plan = sweeps(layers, 8192, layer_bytes)
    assert all(sweep.held.end <= layers for sweep in plan)
    assert all(sweep.held.last == (sweep.held.end == layers) for sweep in plan)
    middle = {sweep.held.layers for sweep in plan if not (sweep.held.first or sweep.held.last)}
    assert len(middle) == 2
    assert max(middle) <= max(2, layers // 2)
    assert min(middle) * layer_bytes >= CACHE_BYTES or min(middle) == layers // 4
    held_out = sum(point.held_out for sweep in plan for point in sweep.points)
    assert 5 < held_out < sum(len(sweep.points) for sweep in plan) / 3


def test_points_beyond_the_context_are_left_out_and_the_fit_still_stands() -> None:
    plan = sweeps(LAYERS, CONTEXT, LAYER_BYTES)
    points = [point for sweep in plan for point in sweep.points]
    assert max(point.longest for point in points) <= CONTEXT
    assert len(points) < sum(len(sweep.points) for sweep in sweeps(LAYERS, 0, LAYER_BYTES))


def test_a_model_of_too_few_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        sweeps(LEAST_LAYERS - 1, 0, LAYER_BYTES)


def test_every_point_runs_in_the_blocks_it_asks_for_and_gives_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def timed(call: Callable[[], tuple[int, float]]) -> tuple[float, float]:
        call()
        calls.append(1)
        return 0.001 * (1 + len(calls) % 7), 0.001

    monkeypatch.setattr(measure, "block_seconds", timed)
    save_model("llama", tmp_path)
    checkpoint, rows = open_checkpoint(tmp_path), []
    for sweep in sweeps(LAYERS, CONTEXT, LAYER_BYTES):
        blocks = kv_blocks(sweep.points, BLOCK_TOKENS)
        engine = load_torch_engine(checkpoint, sweep.held, blocks, torch.float32, torch.device("cpu"))
        found = []
        for block in measured(engine, sweep.points):
            assert engine.free_kv_blocks == blocks
            found.append(block)
        assert len(found) == BLOCKS * len(sweep.points)
        for row, point in zip(rows_of(found, 2.0), sweep.points, strict=True):
            assert (row.layers, row.first, row.last) == (sweep.held.layers, sweep.held.first, sweep.held.last)
            assert row.prompt_tokens == point.prompts * point.prompt_tokens
            rows.append(row)
    terms, errors = fit_step_terms(rows)
    assert min(terms.values()) >= 0
    assert errors.rows == sum(row.held_out for row in rows)


class Steps:
    """An engine whose steps take as long as they are told."""

    free_kv_blocks = 5

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def step(self, batch: object, rows: object) -> str:
        self.clock[0] += 2.0
        return f"{batch} {rows}"


def test_a_paced_engine_rests_for_the_rest_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("agents.engines.paced_engine.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("agents.engines.paced_engine.time.sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    engine = paced(Steps(clock), 0.25)
    assert engine.step("batch", "rows") == "batch rows"
    assert clock[0] == pytest.approx(8.0)
    assert engine.free_kv_blocks == 5
    whole = Steps(clock)
    assert paced(whole, 1.0) is whole


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        paced(Steps([0.0]), share)


def test_a_block_is_as_many_calls_as_fit_and_its_times_are_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"wall": 0.0, "cpu": 0.0}

    def call() -> tuple[int, float]:
        clock["wall"] += 0.03
        clock["cpu"] += 0.01
        return 1, 0.0

    monkeypatch.setattr("agents.profile.measure.time.perf_counter", lambda: clock["wall"])
    monkeypatch.setattr("agents.profile.measure.time.process_time", lambda: clock["cpu"])
    assert block_seconds(call) == pytest.approx((0.03, 0.01))
    assert clock["wall"] == pytest.approx(0.12)


def test_seconds_that_do_not_count_are_no_part_of_a_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def call() -> tuple[int, float]:
        clock[0] += 0.05
        return 4, 0.03

    monkeypatch.setattr("agents.profile.measure.time.perf_counter", lambda: clock[0])
    assert block_seconds(call)[0] == pytest.approx(0.005)
