"""`medley profile list` tells measured numbers from lent ones."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from control.cli import kernel_table
from control.cli.main import app
from control.cloud.local.kinds import DEFAULT_MACHINES
from control.planning.local_market import local_config, local_gpu
from control.profiles.store import FORMAT, ProfileStore, StoredProfile
from templates_lib.cost import chosen
from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.kernel_tables import FRAMEWORKS, NOT_INSTALLED, SYSTEMS, installed_release
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.cost.step_terms import step_terms
from templates_lib.ports.cost_model import NodeStep
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_profile import NodeProfile, ProfileErrors

PARTS = {"gemm", "experts", "prefill_attention", "decode_attention", "links"}


def listed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["profile", "list", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_gpu_says_whose_numbers_it_has() -> None:
    document = json.loads(listed("-o", "json"))
    assert document["fingerprint"] == load_coefficients().fingerprint
    assert set(document["gpus"]) == set(load_gpus())
    assert all(set(card["parts"]) == PARTS for card in document["gpus"].values())
    h100, a10g = document["gpus"]["H100"]["parts"], document["gpus"]["A10G"]["parts"]
    assert all(part["gpu"] == "H100" and part["rows"] > 0 for part in h100.values())
    assert a10g["gemm"]["gpu"] == "A40"
    assert "lent" in a10g["gemm"]["what"]
    assert all(part["gpu"] != "MI300X" for part in document["gpus"]["MI300X"]["parts"].values())
    assert {"vllm", "torch"} <= set(document["engines"])
    assert any(name.startswith("vllm ") for name in document["setups"])


def test_yaml_is_the_same_document_and_the_table_is_short() -> None:
    assert yaml.safe_load(listed("-o", "yaml")) == json.loads(listed("-o", "json"))
    table = listed()
    assert "of A40" in table
    assert "assumed" in table
    assert "median of" in table
    assert load_coefficients().fingerprint in table


def test_profiles_of_this_machine_stand_beside_the_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    assert json.loads(listed("-o", "json"))["profiles"] == []
    machine = DEFAULT_MACHINES[0]
    terms = dict.fromkeys(step_terms(NodeStep(*[np.array(1.0)] * 5), head=True), 1e-3)
    profile = NodeProfile(
        "abc", "2026-11-21", "a machine", "torch", "smollm2-135m-instruct", "fp32", local_config(machine).id, 0.2,
        terms, ProfileErrors(5, 0.05, 0.2), PipelineCost(1e-3, 1e-6, 1e-5, 5e-4, 1e-4, 0.01),
        HandOffCost(1e-9, 1e-9),
    )  # fmt: skip
    stored = StoredProfile(FORMAT, local_gpu(machine), local_config(machine), profile, ())
    ProfileStore(tmp_path / "profiles").put(stored)
    (document,) = json.loads(listed("-o", "json"))["profiles"]
    assert document["errors"]["median"] == 0.05
    assert all(step["measured_ms"] > 0 and step["estimated_ms"] > 0 for step in document["steps"])
    assert "local-small:1/n10" in listed()


def test_kernel_tables_are_listed_with_what_was_timed_of_each_gpu() -> None:
    if not installed_release():
        pytest.skip(NOT_INSTALLED)
    kernels = json.loads(listed("-o", "json"))["kernels"]
    assert kernels["release"] == installed_release()
    assert set(kernels["gpus"]) == set(SYSTEMS)
    assert {"gemm", "attention", "moe", "comm"} <= set(kernels["gpus"]["L40S"]["vllm"])
    assert set(kernels["chosen"]) == set(FRAMEWORKS)
    assert "Kernels timed by NVIDIA" in listed()


def test_without_the_package_the_list_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kernel_table, chosen):
        monkeypatch.setattr(module, "installed_release", lambda: "")
    kernels = json.loads(listed("-o", "json"))["kernels"]
    assert (kernels["release"], kernels["gpus"]) == ("", {})
    assert not any(kernels["chosen"].values())
    assert "[kernels]" in listed().replace("\n", "")


def test_only_local_nodes_can_be_measured_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    core = Path(__file__).resolve().parents[3] / "examples" / "coral-core.yaml"
    result = CliRunner().invoke(app, ["profile", "run", "-f", str(core)])
    assert result.exit_code == 1
    assert "has no local nodes" in result.output
