"""What serves is not taken away by a plan that nobody meant."""

import os

import pytest

from control.db.database import open_database
from tests.control.api.conftest import now
from tests.control.api.worlds import kept_plan, serving
from tests.forked import Forked
from tests.free_port import free_port
from tests.terraform.conftest import PATIENCE_S, ControlPlane, Make

pytestmark = [pytest.mark.needs("terraform"), pytest.mark.slow]
FLEET = """
variable "model" { default = "smollm2-135m-instruct" }
variable "loss" { default = false }
resource "medley_fleet" "serving" {
  name   = "serving"
  models = {
    (var.model) = {
      model    = "smollm2-135m-instruct"
      slo      = { ttft_ms = 60000, tpot_ms = 6000, keep = { throughput = true } }
      workload = "sharegpt"
      demand   = { requests_per_s = 0.005 }
    }
  }
  clouds             = [{ cloud = "local" }]
  allow_traffic_loss = var.loss
}
data "medley_instances" "ready" {
  fleet  = medley_fleet.serving.id
  states = ["ready"]
}
data "medley_plan" "now" {
  fleet = medley_fleet.serving.id
}
"""


def test_a_fleet_that_serves_is_destroyed_only_when_that_is_meant(make: Make, control_plane: ControlPlane) -> None:
    terraform = make(text=FLEET)
    terraform.apply()
    found = terraform.state()["data.medley_plan.now"]
    assert found["usd_per_hour"] == pytest.approx(terraform.state()["medley_fleet.serving"]["expected_usd_per_hour"])
    assert (found["unmet_share"], found["node_count"]) == (0, sum(found["nodes"].values()))
    with open_database(control_plane.database_url) as database:
        kept_plan(database, "serving")
        instance = serving(database, "serving", now())
    terraform.ok("apply", "-refresh-only", "-auto-approve")
    (shown,) = terraform.state()["data.medley_instances.ready"]["instances"]
    assert (shown["id"], shown["state"]) == (instance.id, "ready")

    assert "1 instances of it are ready and would be drained" in terraform.refused("plan", "-var=model=other")
    said = terraform.refused("destroy", "-auto-approve")
    assert "It still serves" in said
    assert "Apply allow_traffic_loss = true first" in said

    # Meant: it is gone when a reconciler has drained it, for which destroy waits.
    terraform.apply("-var=loss=true")
    destroying = terraform.start("destroy", "-auto-approve")
    hub, registry = free_port(), free_port()
    ports = (f"--hub-port={hub}", f"--registry-port={registry}")
    home = {"MEDLEY_DATABASE_URL": control_plane.database_url, "MEDLEY_HOME": str(terraform.directory)}
    reconciler = Forked("medley", ("reconcile", *ports), env=os.environ | home)
    try:
        said, _ = destroying.communicate(timeout=PATIENCE_S)
    finally:
        reconciler.terminate()
        reconciler.wait(PATIENCE_S)
    assert destroying.returncode == 0, said
    with control_plane.client() as api:
        assert api.get("/fleets/serving").status_code == 404
