"""The modules against the official providers' schemas: a real Terraform says of every resource, argument, block and
reference whether it exists and is of the right type, and plans."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import IAC_VENV
from tests.terraform.modules import CLOUDS, IMAGE, Terraform, copied, official_schemas

pytestmark = [pytest.mark.slow, pytest.mark.needs("iac")]


@dataclass(frozen=True, slots=True)
class Site:
    module: Path
    terraform: Terraform
    """At the example."""

    def plan(self, *more: str) -> Any:
        """As Terraform's JSON."""
        file = f"-out={self.terraform.environment['TF_DATA_DIR']}/plan"
        self.terraform.ok("plan", "-input=false", "-var", f"image={IMAGE}", file, *more)
        return json.loads(self.terraform.ok("show", "-json", file.removeprefix("-out=")))


@pytest.fixture(scope="module", params=CLOUDS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    scratch = tmp_path_factory.mktemp(request.param)
    module = copied(request.param, scratch)
    with official_schemas(IAC_VENV / "bin" / "python", IAC_VENV / "wheels", module) as reattach:
        terraform = Terraform.at(module / "examples" / "complete", scratch, TF_REATTACH_PROVIDERS=reattach)
        terraform.ok("init", "-input=false")
        yield Site(module, terraform)


def created(plan: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for change in plan["resource_changes"]:
        if change["mode"] == "managed":
            found.setdefault(change["type"], []).append(change["change"]["after"])
    return found


def test_the_example_is_valid_and_can_be_planned(site: Site) -> None:
    assert "The configuration is valid" in site.terraform.ok("validate")
    made = created(site.plan())
    if site.module.name == "aws":
        (database,) = made["aws_db_instance"]
        wanted = ("multi_az", "storage_encrypted", "deletion_protection", "backup_retention_period")
        assert [database[name] for name in wanted] == [True, True, True, 14]
        assert database["publicly_accessible"] is False
        assert {s["name"]: s["desired_count"] for s in made["aws_ecs_service"]} == {
            "api": 2,
            "gateway": 2,
            "reconcile": 1,
        }
    else:
        (database,) = made["google_sql_database_instance"]
        settings = database["settings"][0]
        assert (database["deletion_protection"], settings["availability_type"]) == (True, "REGIONAL")
        addresses = settings["ip_configuration"][0]
        assert (addresses["ipv4_enabled"], addresses["ssl_mode"]) == (False, "ENCRYPTED_ONLY")
        scaled = {
            s["name"]: s["template"][0]["scaling"][0]["min_instance_count"] for s in made["google_cloud_run_v2_service"]
        }
        assert scaled == {"medley-api": 2, "medley-gateway": 2}


def test_the_password_is_in_no_plan(site: Site) -> None:
    """The provider makes it of forty times one letter."""
    text = json.dumps(site.plan())
    assert 40 * "x" not in text
    version = "aws_db_instance" if site.module.name == "aws" else "google_sql_user"
    assert [one["password_wo"] for one in created(site.plan())[version]] == [None]


@pytest.mark.parametrize(
    ("cloud", "file", "right", "wrong", "said"),
    [
        ("aws", "database.tf", "multi_az  ", "multi_zone", 'argument named "multi_zone" is not expected'),
        ("aws", "balancers.tf", "health_check {", "health {", 'Blocks of type "health" are not'),
        ("aws", "tasks.tf", "deployment_circuit_breaker", "circuit_breaker", 'Blocks of type "circuit_breaker"'),
        ("aws", "outputs.tf", "aws_lb.https.dns_name", "aws_lb.https.host", "no argument, nested block"),
        ("aws", "files.tf", '"aws_efs_backup_policy"', '"aws_efs_backup"', "does not support resource type"),
        ("aws", "schedule.tf", "  schedule_expression = var.watch_schedule\n", "", '"schedule_expression" is required'),
        ("aws", "database.tf", "multi_az               = true", "multi_az = [1]", "bool required"),
        ("aws", "database.tf", "password_wo         =", "password            =", "Invalid use of ephemeral value"),
        ("gcp", "database.tf", "availability_type ", "availability_kind ", '"availability_kind" is not expected'),
        ("gcp", "services.tf", "startup_probe {", "start_probe {", 'Blocks of type "start_probe" are not expected'),
        ("gcp", "outputs.tf", "this.private_ip_address", "this.private_address", "no argument, nested block"),
        ("gcp", "balancer.tf", "compute_ssl_policy", "compute_tls_policy", "does not support resource"),
    ],
)
def test_what_does_not_exist_is_found(site: Site, cloud: str, file: str, right: str, wrong: str, said: str) -> None:
    if site.module.name != cloud:
        return
    path = site.module / file
    before = path.read_text()
    assert right in before
    path.write_text(before.replace(right, wrong, 1))
    try:
        done = site.terraform.run("validate", "-no-color")
    finally:
        path.write_text(before)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split()), done.stderr


def test_the_ways_that_it_can_be_set_can_all_be_planned(site: Site, tmp_path: Path) -> None:
    """With nodes of other clouds, RunPod, and an account of nodes that is there already."""
    more = {
        "aws": """
            nodes_outside = true
            internet_facing = true
            create_node_role = false
            deletion_protection = false
            runpod_secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:runpod"
            database_ca = "-----BEGIN CERTIFICATE-----"
        """,
        "gcp": """
            nodes_outside = true
            create_node_service_account = false
            create_private_services_access = false
            deletion_protection = false
            runpod_secret_id = "runpod"
        """,
    }[site.module.name]
    main = site.module / "examples" / "complete" / "main.tf"
    before = main.read_text()
    main.write_text(before.replace('source = "../.."\n', f'source = "../.."\n {more}', 1))
    try:
        made = created(site.plan())
    finally:
        main.write_text(before)
    if site.module.name == "aws":
        assert "aws_iam_instance_profile" not in made
        assert {lb["name"]: lb["internal"] for lb in made["aws_lb"]} == {"medley-https": False, "medley-nodes": False}
    else:
        assert [one["account_id"] for one in made["google_service_account"] if one["account_id"] == "skypilot-v1"] == []
        assert "google_service_networking_connection" not in made
