"""What disks cost beside a plan: as many as nodes, of the size that these are launched with, at their cloud's price."""

from dataclasses import replace
from pathlib import Path

import pytest

from control.planning.disks import disks_usd_per_hour
from templates_lib.models.catalogue import load_models
from templates_lib.models.node_disk import disk_gib
from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan, PlannedInstance
from tests.control.planning.worlds import KEEP_SPEC, world_of

PER_GIB_HOUR = {"aws": 0.08 / 730, "gcp": 0.10 / 730, "runpod": 0.10 / 730, "owned": 0.0, "kubernetes": 0.0}


@pytest.mark.parametrize("cloud", PER_GIB_HOUR)
def test_each_node_of_a_plan_pays_for_its_disk(tmp_path: Path, cloud: str) -> None:
    served = world_of(tmp_path, KEEP_SPEC.format(keep="throughput")).recipe.served
    nodes, units = {"L40S:1/n10": 2, "L4:1/n10": 1}, {"gpt-oss-20b/decode": 1.0}
    instance = PlannedInstance("t", "gpt-oss-20b", "decode", f"{cloud}/a", Market.SPOT, 3, 0, nodes, units, 9.0)
    costs = (9.0, 9.0, 0.0, 0.0, 0.0)
    plan = Plan("p", "s", "l", "medley", (instance,), (), (), *costs, {}, 9.0, 9.0, 0.0, 0.0, "optimal")
    expected = 9 * disk_gib([load_models()["gpt-oss-20b"]]) * PER_GIB_HOUR[cloud]
    assert disks_usd_per_hour(plan, served) == pytest.approx(expected)
    large = replace(served[0], model=replace(served[0].model, layers=10 * served[0].model.layers))
    assert (disks_usd_per_hour(plan, (large,)) > expected) == (expected > 0), "they are as large as the model needs"
