"""What vendors say is understood once: from SkyPilot's logs and in the fake alike."""

from datetime import UTC, datetime

import pytest

from control.cloud.errors import CloudError, GiveUpError, QuotaError, RetryLaterError, StockOutError, UnauthorisedError
from control.cloud.skypilot.failure import cloud_error
from control.cloud.skypilot.messages import CallFailed
from control.cloud.vendor_errors import VENDOR_ERRORS, VendorError
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.cloud.harness import request
from tests.control.cloud.vendor_words import VENDOR_WORDS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NO_CAPACITY = "Failed to acquire resources in us-east-1a for {AWS(g6.xlarge, {'L4': 1})}."
SPOKEN = {
    "aws": "create_instances: Attempt failed with An error occurred ({code}) when calling the RunInstances operation: "
    "{words}",
    "gcp": "Got return code '{code}' in us-central1-a: '{words}'",
    "runpod": "run_instances error: {words}\nFull traceback:\nrunpod.error.QueryError: {words}",
    "kubernetes": "Failed to provision on context kind: {words}",
}
"""As SkyPilot prints a refusal of each cloud, in the middle of its log; what it raises does not name it."""


def failed(cloud: str, code: str, words: str, before: str = "") -> CallFailed:
    said = SPOKEN[cloud].format(code=code, words=words)
    log = f"Launching\n{before}\nW 11-21 21:37:36.767 instance.py:120] {said}\nTrying other potential resources.\n"
    return CallFailed("ResourcesUnavailableError", NO_CAPACITY, log)


@pytest.mark.parametrize("vendor_error", VENDOR_ERRORS, ids=lambda e: f"{e.cloud}-{e.code}")
def test_a_refusal_that_skypilot_prints_is_the_next_step_that_it_means(vendor_error: VendorError) -> None:
    said = failed(vendor_error.cloud, vendor_error.code, VENDOR_WORDS[vendor_error.code])
    error = cloud_error(vendor_error.cloud, said)
    assert type(error) is vendor_error.next_step
    assert vendor_error.code in str(error)
    assert str(error).startswith(f"{vendor_error.cloud}: ")


@pytest.mark.parametrize("vendor_error", VENDOR_ERRORS, ids=lambda e: f"{e.cloud}-{e.code}")
def test_the_fake_refuses_as_every_vendor_does_and_has_done_nothing(vendor_error: VendorError) -> None:
    cloud = FakeCloud(vendor_error.cloud, {"small": 1})
    cloud.refuse_next("create", vendor_error.code)
    with pytest.raises(CloudError) as raised:
        cloud.create(request(), NOW)
    assert type(raised.value) is vendor_error.next_step
    assert vendor_error.code in str(raised.value)
    assert cloud.list({}, NOW) == ()
    cloud.create(request(), NOW)


def test_the_last_refusal_counts_since_those_before_it_were_worked_around() -> None:
    before = "An error occurred (UnauthorizedOperation) when calling RunInstances: not authorized to tag volumes"
    error = cloud_error("aws", failed("aws", "InsufficientInstanceCapacity", "no capacity", before))
    assert type(error) is StockOutError


def test_a_code_within_a_longer_one_is_not_taken_for_it() -> None:
    assert type(cloud_error("gcp", failed("gcp", "invalidated", "x"))) is GiveUpError
    details = failed("gcp", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "x")
    assert "WITH_DETAILS" in str(cloud_error("gcp", details))


def test_a_code_of_another_vendor_means_nothing() -> None:
    assert type(cloud_error("gcp", failed("gcp", "VcpuLimitExceeded", "x"))) is GiveUpError


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("ApiServerConnectionError", "the server is gone", RetryLaterError),
        ("RequestCancelled", "cancelled", RetryLaterError),
        ("CloudUserIdentityError", "Failed to get AWS user.", UnauthorisedError),
        ("ResourcesUnavailableError", "Catalog does not contain any resources", GiveUpError),
        ("CommandError", "Command setup failed with return code 1.", GiveUpError),
    ],
)
def test_what_is_no_vendors_refusal_goes_by_what_skypilot_raises(
    kind: str, text: str, expected: type[CloudError]
) -> None:
    error = cloud_error("aws", CallFailed(kind, text, "uv: command not found\n"))
    assert type(error) is expected
    assert text in str(error)
    assert "uv: command not found" in str(error)


def test_next_steps_of_every_kind_are_known_of_the_three_clouds_that_are_tested() -> None:
    for cloud in ("aws", "gcp"):
        steps = {e.next_step for e in VENDOR_ERRORS if e.cloud == cloud}
        assert steps == {StockOutError, QuotaError, UnauthorisedError, RetryLaterError, GiveUpError}
