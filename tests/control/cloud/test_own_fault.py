"""Faults of the control plane's machine are told from what clouds refuse."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from control.cloud.errors import CloudError, GiveUpError, OwnFaultError, QuotaError, RetryLaterError, StockOutError
from control.cloud.own_fault import own_fault
from control.cloud.skypilot.failure import cloud_error
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.messages import CallFailed
from control.cloud.skypilot.sdk.provision_log import cause_in
from control.cloud.skypilot.server import ApiServer
from control.cloud.vendor_errors import VENDOR_ERRORS
from tests.control.cloud.vendor_words import vendor_line

FAULTS = [
    ("ModuleNotFoundError", "No module named 'boto3'"),
    ("ImportError", "cannot import name 'x' from 'google.cloud'"),
    (
        "EndpointConnectionError",
        "Failed to resolve 'ec2' ([Errno -3] Temporary failure in name resolution)",
    ),
    ("gaierror", "[Errno -2] Name or service not known"),
    ("OSError", "[Errno 28] No space left on device: '/var/lib/medley'"),
    ("ConnectionError", "[Errno 101] Network is unreachable"),
    ("SSLError", "[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate"),
    ("ClientError", "An error occurred (RequestTimeTooSkewed): the clock is an hour off"),
]


@pytest.mark.parametrize(("kind", "text"), FAULTS)
def test_what_our_own_machine_lacks_is_no_refusal_of_a_cloud(kind: str, text: str) -> None:
    for failed in (
        CallFailed(kind, text),
        CallFailed("ResourcesUnavailableError", "could not provision", f"x\n{text}"),
    ):
        error = cloud_error("aws", failed)
        assert type(error) is OwnFaultError
        assert text.partition("(")[0][:20] in str(error)


@pytest.mark.parametrize(
    ("cloud", "text"),
    [
        (
            "aws",
            "An error occurred (SignatureDoesNotMatch) when calling the GetCallerIdentity operation: Signature expired"
            ": 20261127T143000Z is now earlier than 20261127T152500Z (20261127T153000Z - 5 min.)",
        ),
        (
            "aws",
            "An error occurred (SignatureDoesNotMatch) when calling the GetCallerIdentity operation: Signature not yet "
            "current: 20261127T163000Z is still later than 20261127T153500Z (20261127T153000Z + 5 min.)",
        ),
        ("gcp", "invalid_grant: Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable time"),
    ],
)
def test_a_signature_of_another_time_is_a_wrong_clock_and_no_wrong_credentials(cloud: str, text: str) -> None:
    for failed in (CallFailed("ClientError", text), CallFailed("ResourcesUnavailableError", "none", f"x\n{text}\n")):
        error = cloud_error(cloud, failed)
        assert type(error) is OwnFaultError
        assert "clock" in str(error)


PROVISION_LOG = """\
D 11-27 05:09:30.101 PID=71 provisioner.py:95] run_instances failed for 'n': trying on
D 11-27 05:09:31.101 PID=71 provisioner.py:353] bulk_provision for 'n' failed. Stacktrace:
D 11-27 05:09:31.101 PID=71 provisioner.py:353] Traceback (most recent call last):
D 11-27 05:09:31.101 PID=71 provisioner.py:353]   File "a.py", line 1, in one
D 11-27 05:09:31.101 PID=71 provisioner.py:353] KeyError: 'key'
D 11-27 05:09:31.101 PID=71 provisioner.py:353]
D 11-27 05:09:31.101 PID=71 provisioner.py:353] Traceback (most recent call last):
D 11-27 05:09:31.101 PID=71 provisioner.py:353]   File "a.py", line 2, in two
D 11-27 05:09:31.101 PID=71 provisioner.py:353] {cause}
D 11-27 05:09:31.101 PID=71 provisioner.py:360] Terminating the failed cluster.
D 11-27 05:09:32.101 PID=71 provisioner.py:391] Stacktrace:
D 11-27 05:09:32.101 PID=71 provisioner.py:391] Traceback (most recent call last):
D 11-27 05:09:32.101 PID=71 provisioner.py:391] RuntimeError: of the end
"""


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ssh-keygen'", OwnFaultError),
        ("sqlite3.OperationalError: database is locked", OwnFaultError),
        ("ModuleNotFoundError: No module named 'boto3'", OwnFaultError),
        ("botocore.exceptions.ClientError: An error occurred (VcpuLimitExceeded) when calling", QuotaError),
        ("urllib3.exceptions.ReadTimeoutError: Read timed out.", RetryLaterError),
        ("RuntimeError: Failed to wait for instances of 'n' to be ready", GiveUpError),
    ],
)
def test_what_broke_off_the_creation_of_a_machine_decides_who_is_to_blame(
    cause: str, expected: type[CloudError]
) -> None:
    found = cause_in(PROVISION_LOG.format(cause=cause))
    assert found == cause
    error = cloud_error("aws", CallFailed("ResourcesUnavailableError", "Failed to acquire", "x", cause=found))
    assert type(error) is expected
    assert cause_in("Instances are ready\n") == ""


def test_what_a_vendor_refuses_stays_its_refusal() -> None:
    for each in VENDOR_ERRORS:
        assert own_fault(each.cloud, vendor_line(each.code)) is None, each
    log = "Traceback\nNo module named 'nicety'\nInsufficientInstanceCapacity: there is none"
    assert type(cloud_error("aws", CallFailed("ResourcesUnavailableError", "no", log))) is StockOutError


def test_a_connection_that_was_lost_is_no_fault_of_ours_whatever_was_printed_before() -> None:
    """The launch may have had its effect, which only a repetition finds out."""
    went_on = "Error when trying to check quota. Proceeding assuming quotas are available: NameResolutionError(...)"
    for log in (went_on, "x\n[Errno -2] Name or service not known"):
        assert type(cloud_error("gcp", CallFailed("RemoteDisconnected", "closed", log))) is RetryLaterError
    refused = CallFailed("ResourcesUnavailableError", "could not provision", f"{went_on}\nno such machine")
    assert type(cloud_error("gcp", refused)) is GiveUpError


def test_a_missing_skypilot_is_said_before_a_server_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "sky" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    home = SkyPilotHome(tmp_path / "sky", "me")
    with pytest.raises(OwnFaultError, match="SkyPilot is not installed"):
        ApiServer(home).ensure()
    assert not home.server_log.exists()
