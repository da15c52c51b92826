"""A team's configuration from its first plan to its end, and what others do to it meanwhile."""

import json
import re

import pytest

from tests.terraform.conftest import EXAMPLE, OF_THROUGHPUT, ControlPlane, Make

pytestmark = pytest.mark.needs("terraform")


def test_a_plan_shows_what_a_fleet_costs_before_and_after_a_change(make: Make) -> None:
    terraform = make()
    fleet = terraform.planned()["medley_fleet.chat"]
    before = fleet["after"]["expected_usd_per_hour"]
    assert before > 0
    terraform.ok("apply", "plan")
    done = terraform.run("plan", "-detailed-exitcode", "-var=requests_per_s=40")
    shown = re.search(r"~ expected_usd_per_hour = (\S+) -> (\S+)", done.stdout)
    assert done.returncode == 2
    assert shown, done.stdout
    after = float(shown[2])
    assert float(shown[1]) == before < after
    assert f"Fleet chat: {before:.2f} $/h before, {after:.2f} $/h after (+{after - before:.2f} $/h)" in done.stdout
    assert terraform.is_clean()
    terraform.ok("destroy", "-auto-approve")


@pytest.mark.slow
def test_a_configuration_is_planned_applied_changed_and_destroyed(make: Make, control_plane: ControlPlane) -> None:
    terraform = make(text=EXAMPLE)

    # The first plan says what it will cost: with a promised percentile, and without, which is planned much sooner.
    promised = terraform.planned()["medley_fleet.chat"]["after"]
    assert promised["expected_unmet"] == {}
    terraform.write(OF_THROUGHPUT)
    fleet = terraform.planned()["medley_fleet.chat"]
    assert promised["expected_usd_per_hour"] >= fleet["after"]["expected_usd_per_hour"]
    before = fleet["after"]["expected_usd_per_hour"]
    assert before > 0
    assert fleet["after"]["expected_unmet"] == {}
    assert fleet["after_unknown"]["version"]
    terraform.ok("apply", "plan")
    state = terraform.state()
    assert state["medley_fleet.chat"]["expected_usd_per_hour"] == before
    assert terraform.is_clean()
    with control_plane.client() as api:
        spec = api.get("/fleets/chat").json()["spec"]
        assert spec["models"][0]["slo"] == {
            "ttft_ms": 2000,
            "tpot_ms": 62.5,
            "keep": {"throughput": True},
        }
        assert api.get("/budgets/fleet/chat").json()["usd_per_month_limit"] == 80000.5
        bot = state["medley_api_token.bot"]
        assert api.get(f"/tokens/{bot['id']}").json()["role"] == "client"
        assert bot["token"] not in terraform.ok("plan")

        # A change says what it costs before and after, in the diff and in a sentence, and costs that.
        done = terraform.ok("plan", "-out=plan", "-var=requests_per_s=40")
        fleet = next(
            each["change"]
            for each in json.loads(terraform.ok("show", "-json", "plan"))["resource_changes"]
            if each["address"] == "medley_fleet.chat"
        )
        after = fleet["after"]["expected_usd_per_hour"]
        assert fleet["before"]["expected_usd_per_hour"] == before < after
        assert f"Fleet chat: {before:.2f} $/h before, {after:.2f} $/h after (+{after - before:.2f} $/h)" in done
        terraform.ok("apply", "plan")
        assert api.get("/fleets/chat").json()["spec"]["models"][0]["demand"] == {"requests_per_s": 40}

        # Somebody changes it by hand: the plan shows that, and apply undoes it.
        fleet = api.get("/fleets/chat")
        spec = fleet.json()["spec"]
        spec["models"][0]["demand"]["requests_per_s"] = 4
        body = {"spec": spec, "project": "support", "mode": "observe"}
        api.put("/fleets/chat", json=body, headers={"If-Match": fleet.headers["etag"]}).raise_for_status()
        drifted = terraform.planned("-var=requests_per_s=40")["medley_fleet.chat"]
        rates = [drifted[side]["models"]["chat"]["demand"]["requests_per_s"] for side in ("before", "after")]
        assert rates == [4, 40]
        terraform.ok("apply", "plan")
        assert terraform.is_clean("-var=requests_per_s=40")

        # Deleted behind Terraform's back: it is made again.
        api.delete(f"/tokens/{bot['id']}").raise_for_status()
        etag = api.get("/budgets/fleet/chat").headers["etag"]
        api.delete("/budgets/fleet/chat", headers={"If-Match": etag}).raise_for_status()
        gone = terraform.planned("-var=requests_per_s=40")
        assert [gone[each]["actions"] for each in ("medley_budget.chat", "medley_api_token.bot")] == [["create"]] * 2
        terraform.ok("apply", "plan")
        assert terraform.state()["medley_api_token.bot"]["token"] != bot["token"]

        terraform.ok("destroy", "-auto-approve")
        assert api.get("/fleets/chat").status_code == 404
        assert api.get("/projects/support").status_code == 404
        assert terraform.state() == {}


@pytest.mark.slow
def test_what_is_there_already_is_imported_and_then_nothing_is_to_be_done(
    make: Make, control_plane: ControlPlane
) -> None:
    text = """
    resource "medley_project" "old" {
      name        = "old"
      description = "made by hand"
    }
    resource "medley_budget" "old" {
      project      = medley_project.old.id
      usd_per_hour = 7.25
    }
    resource "medley_fleet" "old" {
      name    = "old"
      project = medley_project.old.id
      models = {
        chat = {
          model      = "gpt-oss-20b"
          slo        = { ttft_ms = 2000, tpot_ms = 50, keep = { throughput = true } }
          workload   = "azure-code"
          demand     = { metered = true, forecast = { head_room = false } }
          aggregated = true
        }
        phi-4-14b = {
          model    = "phi-4-14b"
          slo      = { ttft_ms = 2000, tpot_ms = 50, keep = { throughput = true } }
          workload = "azure-code"
          demand   = { metered = true }
        }
      }
      clouds    = [{ cloud = "aws", regions = ["us-east-2", "us-east-1"], counts = [2, 1] }]
      policy    = { replicas = { "chat/aggregated" = { max = 3 } } }
      reconcile = { all_moves = true }
    }
    """
    slo = {"ttft_ms": 2000, "tpot_ms": 50, "keep": {"throughput": True}}
    model = {"model": "gpt-oss-20b", "slo": slo, "workload": "azure-code"}
    metered = {"metered": True, "forecast": {"quantile": None}}
    spec = {
        "apiVersion": "medley/v1",
        "kind": "Fleet",
        "name": "old",
        "models": [
            model | {"model": "phi-4-14b", "demand": "metered"},
            model | {"name": "chat", "demand": metered, "aggregated": True},
        ],
        "clouds": [{"cloud": "aws", "regions": ["us-east-1", "us-east-2"], "counts": [1, 2]}],
        "policy": {"replicas": {"chat/aggregated": {"max": 3}}, "max_usd_per_hour": None},
        "reconcile": {"payback_minutes": None},
    }
    terraform = make(text=text)
    with control_plane.client() as api:
        api.post("/projects", json={"name": "old", "description": "made by hand"}).raise_for_status()
        api.post("/fleets", json={"spec": spec, "project": "old"}).raise_for_status()
        limits = {"usd_per_hour": 7.25}
        api.put("/budgets/project/old", json=limits, headers={"If-None-Match": "*"}).raise_for_status()
    assert "terraform import medley_project.NAME 'old'" in terraform.refused(
        "apply", "-auto-approve", "-target=medley_project.old"
    )
    terraform.ok("import", "medley_project.old", "old")
    terraform.ok("import", "medley_budget.old", "project/old")
    terraform.ok("import", "medley_fleet.old", "old")
    assert terraform.is_clean()
    assert "This is no id of a budget" in terraform.refused("import", "medley_budget.old", "old")
    terraform.ok("state", "rm", "medley_fleet.old")
    assert "Cannot import non-existent remote object" in terraform.refused("import", "medley_fleet.old", "new")
