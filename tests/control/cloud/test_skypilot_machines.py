"""Machines that SkyPilot has no record of are found by their owner's label, from the clouds' own APIs, and ended."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1
from moto.server import ThreadedMotoServer

from control.cloud.skypilot.messages import Machine, SweepMachines
from control.cloud.skypilot.sdk import aws_machines, gcp_machines, runpod_machines
from tests.http_endpoint import Asked, Endpoint, Said, serving

AMI = "ami-12c6146b"


@dataclass
class Vendor:
    """Answers, with a status, by what the path or the body holds."""

    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    endpoint: Endpoint = field(default_factory=lambda: Endpoint(""))

    def answer(self, asked: Asked) -> Said:
        body = asked.body.decode()
        status, answer = next((a for part, a in self.answers.items() if part in asked.path or part in body), (404, {}))
        return Said(answer, status)


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    made = Vendor()
    with serving(made.answer) as made.endpoint:
        yield made


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    yield
    server.stop()


def started(region: str, **tags: str) -> str:
    labels = [{"Key": key.replace("_", "-"), "Value": value} for key, value in tags.items()]
    (instance,) = boto3.client("ec2", region_name=region).run_instances(
        ImageId=AMI,
        InstanceType="g6.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": labels}],
    )["Instances"]
    return instance["InstanceId"]


def test_ec2_instances_of_the_owner_are_found_in_every_region_and_end(aws: None) -> None:
    mine = {"medley_owner": "me", "medley_instance": "i1"}
    one = started("us-east-1", **mine, medley_node="medley-i1-0-0")
    two = started("eu-west-1", **mine, medley_node="medley-i1-1-0")
    started("us-east-1", medley_owner="you", medley_node="medley-i2-0-0")
    started("us-east-1", Name="somebody-elses")
    boto3.client("ec2", region_name="eu-west-1").stop_instances(InstanceIds=[two])

    found = {machine.name: machine for machine in aws_machines.machines(SweepMachines("aws", "me", "00000000"))}
    assert {name: (m.provider_id, m.place, m.stopped) for name, m in found.items()} == {
        "medley-i1-0-0": (one, "us-east-1", False),
        "medley-i1-1-0": (two, "eu-west-1", True),
    }
    assert found["medley-i1-0-0"].instance_type == "g6.xlarge"
    assert found["medley-i1-0-0"].labels["medley-instance"] == "i1"
    for machine in found.values():
        aws_machines.end(machine)
        aws_machines.end(machine)
    assert aws_machines.machines(SweepMachines("aws", "me", "00000000")) == []
    assert len(aws_machines.machines(SweepMachines("aws", "you", "00000000"))) == 1


def test_an_ec2_instance_that_never_was_is_ended_already(aws: None) -> None:
    other = started("us-east-1", medley_owner="me", medley_node="medley-i1-0-0")
    aws_machines.end(Machine("n", "i-0123456789abcdef0", "us-east-1", "g6.xlarge", False, {}))
    assert [m.provider_id for m in aws_machines.machines(SweepMachines("aws", "me", "00000000"))] == [other]


def test_compute_engine_instances_of_the_owner_are_asked_for_by_label_and_end(vendor: Vendor) -> None:
    options = ClientOptions(api_endpoint=vendor.endpoint.url)
    client = compute_v1.InstancesClient(credentials=AnonymousCredentials(), client_options=options)
    labels = {"medley-owner": "me", "medley-node": "medley-i1-0-0"}
    instance = {
        "name": "medley-i1-0-0-9ab21c6d-head",
        "machineType": "https://compute/projects/p/zones/us-central1-a/machineTypes/g2-standard-4",
        "status": "RUNNING",
        "labels": labels,
    }
    vendor.answers["aggregated/instances"] = 200, {"items": {"zones/us-central1-a": {"instances": [instance]}}}
    (machine,) = gcp_machines.machines_of(client, "p", "me")
    place = "p/us-central1-a"
    assert machine == Machine("medley-i1-0-0", instance["name"], place, "g2-standard-4", False, labels)
    assert "filter=labels.medley-owner%3Dme" in vendor.endpoint.asked[0].path

    vendor.answers["zones/us-central1-a/instances"] = 200, {"name": "operation-1", "status": "RUNNING"}
    gcp_machines.end_with(client, machine)
    asked = vendor.endpoint.asked[-1]
    assert (asked.method, asked.path.partition("?")[0]) == (
        "DELETE",
        f"/compute/v1/projects/p/zones/us-central1-a/instances/{machine.provider_id}",
    )
    vendor.answers["zones/us-central1-a/instances"] = 404, {"error": {"code": 404, "message": "not found"}}
    gcp_machines.end_with(client, machine)


def test_pods_are_known_by_the_names_that_skypilot_gives_the_owners_machines(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNPOD_API_BASE_URL", vendor.endpoint.url)
    monkeypatch.setattr("runpod.api_key", "key")

    def pod(number: int, name: str, status: str = "RUNNING") -> dict[str, Any]:
        return {"id": f"p{number}", "name": name, "desiredStatus": status, "machine": {"gpuDisplayName": "L4"}}

    names = ("medley-i1-0-0-9ab21c6d-head", "medley-i1-1-0-9ab21c6d-head", "medley-i9-0-0-ffffffff-head", "notebook")
    pods = [pod(n, name, "EXITED" if n == 1 else "RUNNING") for n, name in enumerate(names)]
    vendor.answers["myPods"] = 200, {"data": {"myself": {"pods": pods}}}
    found = runpod_machines.machines(SweepMachines("runpod", "me", "9ab21c6d"))
    assert [(m.name, m.provider_id, m.stopped) for m in found] == [
        ("medley-i1-0-0", "p0", False),
        ("medley-i1-1-0", "p1", True),
    ]
    assert all(machine.labels == {"medley-owner": "me"} for machine in found)

    vendor.answers["podTerminate"] = 200, {"data": {"podTerminate": None}}
    runpod_machines.end(found[0])
    assert 'podId: "p0"' in vendor.endpoint.asked[-1].json["query"]
