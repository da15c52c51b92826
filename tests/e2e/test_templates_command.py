"""`medley templates` on a library of templates of up to eight nodes, built by the command itself."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Run

SPEC = """
apiVersion: medley/v1
kind: Fleet
name: eight
models:
  - model: gpt-oss-20b
    engine: vllm-stage
    slo: {ttft_ms: 1500, tpot_ms: 30, keep: throughput}
    workload: azure-code
    demand: {requests_per_s: 10}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L40S, L4], counts: [1]}
solver: {n_max: 8, rho: 40}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "eight.yaml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def built(medley: Run, spec: Path) -> dict[str, Any]:
    done = medley("templates", "build", "-f", spec, "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_eight_nodes_are_enumerated_and_what_they_serve_apart_is_left_out(built: dict[str, Any]) -> None:
    # All multisets of 1 to 8 nodes, for each of two phases: rho leaves none out.
    assert built["sets"] == 2 * (math.comb(len(built["configs"]) + 8, 8) - 1)
    assert built["sets"] >= built["templates"] > built["kept"] > 0
    assert built["parameters"] == {"n_max": 8, "rho": 40}
    assert built["seconds"] == pytest.approx(sum(unit["seconds"] for unit in built["units"]))


def test_a_library_that_is_there_is_not_built_again(medley: Run, spec: Path, built: dict[str, Any]) -> None:
    again = medley("templates", "build", "-f", spec, "-o", "json")
    assert json.loads(again.stdout) == built
    assert "built" not in again.stderr


def test_a_template_of_a_plan_is_shown_by_its_id(medley: Run, spec: Path) -> None:
    planned = medley("plan", "-f", spec, "--no-baselines", "-o", "json")
    assert planned.returncode == 0, planned.stderr
    for instance in json.loads(planned.stdout)["instances"]:
        shown = json.loads(medley("templates", "show", instance["template_id"], "-o", "json").stdout)
        assert shown["template"]["nodes"] == instance["nodes"]
        assert shown["template"]["placement"] == instance["placement"]
        assert shown["capacity"]["points"][0]["units_per_s"].keys() == {f"gpt-oss-20b/{instance['phase']}"}
        table = medley("templates", "show", instance["template_id"]).stdout
        assert all(config in table for config in instance["nodes"])


def test_neither_a_library_nor_a_template(medley: Run, built: dict[str, Any]) -> None:
    unknown = medley("templates", "show", "0" * 32)
    assert unknown.returncode == 1
    assert "is not stored" in unknown.stderr
    begun = medley("templates", "show", built["version"][:8])
    assert built["version"] in begun.stdout
