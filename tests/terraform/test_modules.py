"""What the modules say of themselves, and what they refuse: by Terraform itself, without any provider."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.terraform.modules import CLOUDS, MODULES, Terraform

GOOD = {
    "aws": {
        "image": "r/medley@sha256:" + 64 * "0", "vpc_id": "vpc-0a1b2c3d", "private_subnet_ids": ["a", "b"],
        "load_balancer_subnet_ids": ["c", "d"], "client_cidrs": ["10.0.0.0/8"], "node_cidrs": ["10.0.0.0/8"],
        "certificate_arn": "arn:aws:acm:us-east-1:123456789012:certificate/0a1b-2c", "api_hostname": "a.example.com",
        "gateway_hostname": "b.example.com", "access_log_bucket": "logs", "launch_regions": ["us-east-1"],
    },
    "gcp": {
        "image": "us-docker.pkg.dev/p/r/medley@sha256:" + 64 * "0", "project_id": "example-serving",
        "region": "us-central1", "zone": "us-central1-a", "network_name": "n", "subnetwork_name": "s",
        "client_cidrs": ["10.0.0.0/8"], "node_cidrs": ["10.0.0.0/8"], "api_hostname": "a.example.com",
        "gateway_hostname": "b.example.com",
    },
}  # fmt: skip

BAD = {
    "aws": {
        "name": "Medley", "image": "medley:latest", "vpc_id": "main", "private_subnet_ids": ["a", "a"],
        "load_balancer_subnet_ids": [], "client_cidrs": ["everybody"], "node_cidrs": [], "certificate_arn": "mine",
        "api_hostname": "https://a.example.com", "gateway_hostname": "localhost", "access_log_bucket": "arn:aws:s3:::b",
        "api_replicas": 1, "gateway_replicas": 1.5, "sizes": {"reconcile": {"cpu": 256, "memory_mib": 512}},
        "database_instance_class": "large", "database_storage_gib": 5, "database_password_version": 0,
        "database_ca": "ca.pem", "backup_retention_days": 0, "log_retention_days": 42, "launch_regions": [],
        "runpod_secret_arn": "rpa_SECRETKEY", "watch_schedule": "hourly",
    },
    "gcp": {
        "name": "medley-control-plane", "image": "medley:latest", "project_id": "12", "region": "us",
        "zone": "us-east1-b", "network_name": "projects/p/global/networks/n", "subnetwork_name": "a/b",
        "client_cidrs": 11 * ["10.0.0.0/8"],
        "node_cidrs": [], "api_hostname": "a", "gateway_hostname": "a", "api_replicas": 0, "gateway_replicas": 99,
        "machine_type": "f1-micro", "database_tier": "db-f1-micro", "database_storage_gib": 1,
        "database_password_version": 1.5, "backup_retention_days": 3, "runpod_secret_id": "rpa SECRET KEY",
        "watch_schedule": "hourly",
    },
}  # fmt: skip

RIGHT = re.compile(
    r'"((?:ec2|ecs|iam|kms|pricing|secretsmanager|servicequotas):[A-Z]\w+\*?'
    r'|(?:compute|iam|resourcemanager|serviceusage)\.(?!googleapis)\w+\.\w+|roles/[\w.]+)"'
)
NAMED_ALIKE = {
    "ec2:CreateAction", "iam:PassedToService", "iam:AWSServiceName", "kms:EncryptionContext", "kms:Encrypt",
    "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*",
}  # fmt: skip
"""Names of conditions, and what a key's own policy lets the service of logs do."""


@pytest.fixture
def inputs(request: pytest.FixtureRequest, tmp_path: Path) -> Terraform:
    """Terraform at the inputs of a module alone."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    shutil.copy(MODULES / request.param / "variables.tf", folder)
    made = Terraform.at(folder, tmp_path)
    made.ok("init", "-input=false")
    return made


def planned(inputs: Terraform, given: dict[str, object]) -> subprocess.CompletedProcess[str]:
    (inputs.folder / "given.auto.tfvars.json").write_text(json.dumps(given))
    return inputs.run("plan", "-input=false", "-no-color")


@pytest.mark.needs("terraform")
def test_all_is_in_the_form_that_terraform_fmt_gives_it(tmp_path: Path) -> None:
    Terraform.at(MODULES, tmp_path).ok("fmt", "-check", "-diff", "-recursive")


@pytest.mark.needs("terraform")
@pytest.mark.parametrize("inputs", CLOUDS, indirect=True)
def test_inputs_as_in_the_example_are_taken(inputs: Terraform, request: pytest.FixtureRequest) -> None:
    done = planned(inputs, GOOD[request.node.callspec.params["inputs"]])
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("terraform")
@pytest.mark.parametrize("inputs", CLOUDS, indirect=True)
def test_every_wrong_input_is_refused_with_its_name_and_what_it_should_be(
    inputs: Terraform, request: pytest.FixtureRequest
) -> None:
    good, bad = (values[request.node.callspec.params["inputs"]] for values in (GOOD, BAD))
    # Terraform looks at these only when the inputs that they are compared with are right.
    compared = {name: bad[name] for name in ("zone", "gateway_hostname") if name in bad}
    for wrong in ({name: value for name, value in bad.items() if name not in compared}, compared):
        done = planned(inputs, good | wrong)
        assert done.returncode == 1
        for name in wrong:
            assert re.search(rf"^{name}\b.* (must|needs|is|has)\b", done.stderr, re.MULTILINE), f"{name} was taken"


@pytest.mark.needs("terraform")
@pytest.mark.parametrize("inputs", ["aws"], indirect=True)
def test_two_host_names_that_are_one_are_refused(inputs: Terraform) -> None:
    done = planned(inputs, GOOD["aws"] | {"gateway_hostname": "a.example.com"})
    assert "gateway_hostname and api_hostname must differ" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_readme_has_every_input_and_output(cloud: str) -> None:
    with_tables = runpy.run_path(str(MODULES / "tables.py"))["with_tables"]
    readme = (MODULES / cloud / "README.md").read_text()
    assert with_tables(MODULES / cloud) == readme, "run: python terraform/modules/tables.py"
    assert "| `image` | `string` | required |" in readme


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_right_is_listed_with_what_needs_it_and_no_other(cloud: str) -> None:
    module = MODULES / cloud
    given = "".join(file.read_text() for file in module.glob("*.tf"))
    table = (module / "README.md").read_text().partition("## Rights")[2].partition("\n## ")[0]
    rows = [row.split("|")[2] for row in table.splitlines() if row.startswith("|")]
    listed = {right for row in rows for right in re.findall(r"`([^`]+)`", row)} - {"skypilot-v1"}
    rights = set(RIGHT.findall(given)) - NAMED_ALIKE
    assert len(rights) > 15
    assert rights == listed


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_input_says_what_it_takes(cloud: str) -> None:
    """A Boolean, and what is passed on as it is, need no validation."""
    blocks = (MODULES / cloud / "variables.tf").read_text().split('\nvariable "')
    free = [block.split('"')[0] for block in blocks if "validation {" not in block and "= bool" not in block]
    assert [name for name in free if name.strip()] in (["tags"], ["labels"])
