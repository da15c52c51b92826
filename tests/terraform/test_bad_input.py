"""What is wrong is said before anything is done, where it stands, with what to do about it."""

import re

import pytest

from tests.terraform.conftest import ControlPlane, Make

pytestmark = pytest.mark.needs("terraform")
FLEET = """
variable "dollars" { default = 100 }
resource "medley_fleet" "bad" {
  name    = "bad"
  models = {
    chat = {
      model         = "gpt-oss-20b"
      slo           = { ttft_ms = 2000, tpot_ms = 50, keep = { throughput = true } }
      workload      = "azure-code"
      demand        = { requests_per_s = 5 }
      aggregated    = true
      disaggregated = false
    }
  }
  clouds = [{ cloud = "aws", regions = ["us-east-1"], gpus = ["L40S"], counts = [1] }]
  policy = { max_usd_per_hour = var.dollars }
  solver = { n_max = 1 }
}
"""


def test_what_needs_no_control_plane_is_said_without_one(make: Make) -> None:
    text = (
        FLEET.replace("ttft_ms = 2000", "ttft_ms = 0")
        .replace("requests_per_s = 5", 'requests_per_s = 5, trace = "x"')
        .replace('= "bad"', '= "-bad-"')
    )
    text += """
    resource "medley_budget" "both" {
      fleet   = "a"
      project = "b"
    }
    resource "medley_model" "none" {
      name   = "m"
      config = "{"
    }
    resource "medley_api_token" "king" {
      name = "x"
      role = "king"
    }
    """
    said = make(text=text).refused("validate", MEDLEY_ENDPOINT="", MEDLEY_TOKEN="")
    for complaint in (
        'ttft_ms has to be above 0 with medley_fleet.bad, on main.tf line 12, in resource "medley_fleet" "bad": '
        "12: chat = {",
        'At models["chat"].slo.ttft_ms.',
        "name does not fit",
        "Give either fleet or project.",
        "This limits nothing",
        "config is not JSON",
        "role has to be one of client, viewer, operator, admin",
    ):
        assert complaint in said


def test_a_fleet_that_cannot_be_is_an_error_of_the_plan(make: Make, control_plane: ControlPlane) -> None:
    terraform = make(text=FLEET)
    said = terraform.refused("plan", "-var=dollars=0.5")
    assert re.search(r"Fleet bad is over its budget: it needs \d\.\d\d \$/h, and may cost 0\.50 \$/h", said), said
    assert "policy = { max_usd_per_hour = var.dollars }" in said

    terraform.write((terraform.directory / "main.tf").read_text().replace('"gpt-oss-20b"', '"gpt-oss-20"'))
    said = terraform.refused("plan")
    assert "unknown model 'gpt-oss-20'; did you mean 'gpt-oss-20b'?" in said
    assert 'At models["chat"].model.' in said
    with control_plane.client() as api:
        assert api.get("/fleets/bad").status_code == 404


@pytest.mark.slow
def test_a_wrong_endpoint_or_token_is_said_once(make: Make, control_plane: ControlPlane) -> None:
    terraform = make(text='resource "medley_project" "p" {\n  name = "p"\n}\n')
    for complaint, changes in (
        ("http://127.0.0.1:1/api/v1/ cannot be reached", {"MEDLEY_ENDPOINT": "http://127.0.0.1:1"}),
        ("which is not Medley's admin API", {"MEDLEY_ENDPOINT": f"{control_plane.url}/elsewhere"}),
        ("Set MEDLEY_TOKEN, or `token` of the provider", {"MEDLEY_TOKEN": ""}),
        ("The API token is not accepted", {"MEDLEY_TOKEN": "medley_nobody_knows"}),
    ):
        said = terraform.refused("plan", **changes)
        assert said.count("Error:") == 1, said
        assert complaint in said
