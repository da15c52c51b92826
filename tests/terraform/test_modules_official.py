"""The modules against the official providers' schemas: a real Terraform says of every resource, argument, block and
reference whether it exists and is of the right type, and plans."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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


@pytest.fixture(scope="module")
def example(site: Site) -> Any:
    return site.plan()


def test_the_example_is_valid_and_can_be_planned(site: Site, example: Any) -> None:
    assert "The configuration is valid" in site.terraform.ok("validate")
    made = created(example)
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


def test_the_password_is_in_no_plan(site: Site, example: Any) -> None:
    """The provider makes it of forty times one letter."""
    assert 40 * "x" not in json.dumps(example)
    version = "aws_db_instance" if site.module.name == "aws" else "google_sql_user"
    assert [one["password_wo"] for one in created(example)[version]] == [None]


FAULTS = {
    "aws": (
        ("database.tf", "multi_az  ", "multi_zone", 'argument named "multi_zone" is not expected'),
        ("balancers.tf", "health_check {", "health {", 'Blocks of type "health" are not'),
        ("tasks.tf", "deployment_circuit_breaker", "circuit_breaker", 'Blocks of type "circuit_breaker"'),
        ("outputs.tf", "aws_lb.https.dns_name", "aws_lb.https.host", "no argument, nested block"),
        ("files.tf", '"aws_efs_backup_policy"', '"aws_efs_backup"', "does not support resource type"),
        ("schedule.tf", "  schedule_expression = var.watch_schedule\n", "", '"schedule_expression" is required'),
        ("database.tf", "multi_az               = true", "multi_az = [1]", "bool required"),
        ("database.tf", "password_wo         =", "password            =", "Invalid use of ephemeral value"),
    ),
    "gcp": (
        ("database.tf", "availability_type ", "availability_kind ", '"availability_kind" is not expected'),
        ("services.tf", "startup_probe {", "start_probe {", 'Blocks of type "start_probe" are not expected'),
        ("outputs.tf", "this.private_ip_address", "this.private_address", "no argument, nested block"),
        ("balancer.tf", "compute_ssl_policy", "compute_tls_policy", "does not support resource"),
    ),
}
"""File, what is right, what is wrong in its place, and what Terraform says then."""


def test_what_does_not_exist_is_found(site: Site) -> None:
    """As many faults at once as are found at once: what depends on a faulty resource is not looked at."""
    left = list(FAULTS[site.module.name])
    while left:
        tried = {file: fault for fault in reversed(left) for file in fault[:1]}  # the first of each file
        with faulty(site.module, {file: fault[1:3] for file, fault in tried.items()}):
            done = site.terraform.run("validate", "-no-color")
        assert done.returncode == 1
        said = " ".join(done.stderr.split())
        found = [fault for fault in tried.values() if fault[3] in said]
        assert found, f"none of {tried} in {said}"
        left = [fault for fault in left if fault not in found]


@contextmanager
def faulty(module: Path, faults: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """File → what is right in it, and what is wrong in its place."""
    before = {file: (module / file).read_text() for file in faults}
    for file, (right, wrong) in faults.items():
        assert right in before[file]
        (module / file).write_text(before[file].replace(right, wrong, 1))
    try:
        yield
    finally:
        for file, text in before.items():
            (module / file).write_text(text)


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
