"""What AWS and GCP tell their machines about being taken, asked as they want to be asked."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from agents.node.metadata import AwsMetadata, GcpMetadata, InterruptionNotice, MetadataError, metadata_of
from tests.agents.node.metadata_endpoint import AwsMachine, GcpMachine
from tests.http_endpoint import Asked, Endpoint, Said, serving

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass
class Anything:
    said: Said
    endpoint: Endpoint = field(default_factory=lambda: Endpoint(""))

    def answer(self, asked: Asked) -> Said:
        return Said(b"token") if asked.method == "PUT" else self.said


@pytest.fixture
def aws() -> Iterator[AwsMachine]:
    machine = AwsMachine()
    with serving(machine.answer) as machine.endpoint:
        yield machine


@pytest.fixture
def gcp() -> Iterator[GcpMachine]:
    machine = GcpMachine()
    with serving(machine.answer) as machine.endpoint:
        yield machine


def test_aws_announces_when_a_spot_machine_is_taken(aws: AwsMachine) -> None:
    metadata = AwsMetadata(aws.endpoint.url)
    assert metadata.interruption(NOON) is None
    aws.action = {"action": "terminate", "time": "2026-11-21T12:02:00Z"}
    found = metadata.interruption(NOON)
    assert found == InterruptionNotice(
        NOON + timedelta(minutes=2), "spot interruption: terminate at 2026-11-21T12:02:00+00:00"
    )
    assert [asked.method for asked in aws.endpoint.asked] == ["PUT", "GET", "GET"]


def test_a_token_that_has_expired_is_renewed(aws: AwsMachine) -> None:
    metadata = AwsMetadata(aws.endpoint.url)
    assert metadata.interruption(NOON) is None
    aws.token = "another"  # noqa: S105
    with pytest.raises(MetadataError, match="status 401"):
        metadata.interruption(NOON)
    assert metadata.interruption(NOON) is None


def test_gcp_announces_preemption_and_maintenance(gcp: GcpMachine) -> None:
    metadata = GcpMetadata(gcp.endpoint.url)
    assert metadata.interruption(NOON) is None
    gcp.maintenance = "TERMINATE_ON_HOST_MAINTENANCE"
    found = metadata.interruption(NOON)
    assert found == InterruptionNotice(NOON + timedelta(hours=1), "host maintenance that ends the machine")
    assert metadata.interruption(NOON + timedelta(minutes=5)) == found
    gcp.maintenance = "MIGRATE_ON_HOST_MAINTENANCE"
    assert metadata.interruption(NOON) is None
    gcp.preempted = "TRUE"
    found = metadata.interruption(NOON)
    assert found == InterruptionNotice(NOON + timedelta(seconds=30), "spot preemption")
    assert metadata.interruption(NOON + timedelta(seconds=20)) == found


@pytest.mark.parametrize(
    "said", [Said(b"{"), Said([1]), Said({"action": "x"}), Said({"action": "x", "time": "soon"}), Said({}, 500)]
)
def test_an_answer_of_another_form_is_no_notice(said: Said) -> None:
    with serving(Anything(said).answer) as endpoint, pytest.raises(MetadataError):
        AwsMetadata(endpoint.url).interruption(NOON)


def test_nobody_there_is_no_notice() -> None:
    for metadata in (AwsMetadata("http://127.0.0.1:9"), GcpMetadata("http://127.0.0.1:9")):
        with pytest.raises(MetadataError, match="does not answer"):
            metadata.interruption(NOON)


def test_clouds_without_notice_are_not_asked() -> None:
    assert metadata_of("runpod", "http://127.0.0.1:9") is None
    assert metadata_of("", "http://127.0.0.1:9") is None
    with pytest.raises(ValueError, match="is no address of machine metadata"):
        metadata_of("aws", "file:///etc/passwd")
