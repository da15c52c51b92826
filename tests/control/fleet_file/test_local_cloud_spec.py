"""The local cloud in a spec file: default kinds, kinds of one's own, and what is refused, at its line."""

from pathlib import Path

import pytest

from control.cloud.local.kinds import DEFAULT_MACHINES
from control.fleet_file.problem import SpecError
from control.planning.world import World, read_world

HEAD = """\
apiVersion: medley/v1
kind: Fleet
name: here
models:
  - model: smollm2-135m-instruct
    slo: {ttft_ms: 6000, tpot_ms: 600}
    workload: sharegpt
    demand: {requests_per_s: 0.1}
clouds:
"""
OWN = """\
  - cloud: local
    kinds:
      - {name: slow, cpu_cores: 0.25, memory_mib: 300, stock: 3, usd_per_hour: 0.5}
      - {name: fast, cpu_cores: 2, memory_mib: 900, stock: 1, usd_per_hour: 1.5}
"""


def world(tmp_path: Path, clouds: str) -> World:
    (tmp_path / "fleet.yaml").write_text(HEAD + clouds)
    return read_world(tmp_path / "fleet.yaml")


def test_without_kinds_the_default_ones_are_offered(tmp_path: Path) -> None:
    found = world(tmp_path, "  - cloud: local\n")
    assert found.fleet.machines == DEFAULT_MACHINES
    assert {o.instance_type: o.available_count for o in found.quotes.offers} == {
        machine.name: machine.stock for machine in DEFAULT_MACHINES
    }
    assert {o.zone_id for o in found.quotes.offers} == {"local/here"}
    assert [served.engine for served in found.recipe.served] == ["torch"]


def test_no_default_kind_has_room_for_the_whole_default_model(tmp_path: Path) -> None:
    found = world(tmp_path, "  - cloud: local\n")
    weights = found.recipe.served[0].model.weight_bytes
    assert all(gpu.memory_bytes < weights for gpu in found.recipe.gpus)
    assert sum(m.cpu_cores * m.stock for m in DEFAULT_MACHINES) < 1.9
    assert len({m.cpu_cores for m in DEFAULT_MACHINES}) == len(DEFAULT_MACHINES) >= 3


def test_kinds_of_ones_own(tmp_path: Path) -> None:
    found = world(tmp_path, OWN)
    assert [m.name for m in found.fleet.machines] == ["slow", "fast"]
    assert {o.key: o.usd_per_hour for o in found.quotes.offers} == {
        "local/here/slow/on-demand": 0.5,
        "local/here/fast/on-demand": 1.5,
    }
    slow, fast = found.recipe.gpus
    assert slow.memory_gib == 300 / 1024
    assert fast.peak_bf16_tflops == 8 * slow.peak_bf16_tflops
    assert all(node.joins_others for node in found.recipe.nodes)


@pytest.mark.parametrize(
    ("clouds", "line", "text"),
    [
        ("  - cloud: lokal\n", 10, "did you mean 'local'"),
        ("  - {cloud: local, gpus: [L4]}\n", 10, "has kinds, and no gpus"),
        (OWN.replace("local", "aws"), 10, "kinds are of cloud 'local'"),
        (OWN.replace("cpu_cores", "cpu_core"), 12, "did you mean 'cpu_cores'"),
        (OWN.replace("0.25", "0"), 12, "must be greater than 0"),
        (OWN.replace("slow", "fast"), 10, "fast occurs twice"),
        (OWN.replace("fast", "L4"), 13, "'L4' is a GPU"),
        (OWN + "  - cloud: local\n", 1, "name cloud 'local' once"),
        ("  - {cloud: local, kinds: []}\n", 10, "at least one entry"),
    ],
)
def test_what_cannot_be_is_told_at_its_line(tmp_path: Path, clouds: str, line: int, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        world(tmp_path, clouds)
    told = [str(problem) for problem in caught.value.problems]
    assert any(f"fleet.yaml:{line}: " in one and text in one for one in told), told
