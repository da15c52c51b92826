"""Failures of SkyPilot and the next step after each. It names the vendor's code in what it prints, and in words of its
own otherwise."""

import re

from control.cloud.errors import CloudError, GiveUpError, RetryLaterError, UnauthorisedError
from control.cloud.own_fault import fault_inside, own_fault, wrong_clock
from control.cloud.skypilot.messages import CallFailed
from control.cloud.vendor_errors import last_vendor_error

_AGAIN_S = 15.0
_TEXT_CHARS = 400
_NO_CREDENTIALS = re.compile(
    r"CloudUserIdentityError|InvalidCloudCredentials|NoCloudAccessError|ExpiredToken|InvalidClientTokenId|AuthFailure"
    r"|NoCredentials|Unable to locate credentials|DefaultCredentialsError|RefreshError|401 Client Error",
)
_EMPTY_WORDS = re.compile(r"^\s*<sky-payload|Trying other potential|View logs|^\W*Optimiz|^-+$|sky jobs launch")
_NO_CONNECTION = re.compile(r"[\w.]*(Connection\w*|Timeout\w*|TimedOut|RemoteDisconnected|ProtocolError)\b")
"""Types of exceptions for a vendor that did not answer, which is no refusal."""
_WENT_ON = re.compile(r"^.*Proceeding assuming.*$", re.MULTILINE)
"""What SkyPilot could do without."""
_REQUEST_IS_WRONG = frozenset(
    {
        *("ValueError", "ResourcesMismatchError", "ResourcesUnavailableError", "NotSupportedError", "CommandError"),
        *("InvalidSkyPilotConfigError", "InvalidClusterNameError", "ClusterOwnerIdentityMismatchError"),
        *("UserRequestRejectedByPolicy", "ProvisionUnsupportedError", "InvalidCloudConfigs"),
    }
)


def cloud_error(cloud: str, failed: CallFailed) -> CloudError:
    """Make the error to raise. The caller finds out whether anything is left of a launch."""
    found = last_vendor_error(cloud, f"{failed.text}\n{failed.log}\n{failed.cause}")
    if found is not None:
        vendor_error, line = found
        return wrong_clock(cloud, line) or vendor_error.error(cloud, line[:_TEXT_CHARS])
    fault = own_fault(cloud, f"{failed.kind}: {failed.text}") or fault_inside(cloud, failed.cause)
    if fault is None and failed.kind in _REQUEST_IS_WRONG:
        # A lost connection is no verdict, whatever was printed before: something may have been created.
        fault = own_fault(cloud, _WENT_ON.sub("", failed.log))
    if fault is not None:
        return fault
    text = f"{cloud}: {_said(failed)}"
    if _NO_CONNECTION.match(failed.cause):
        return RetryLaterError(f"{text}: {failed.cause[:_TEXT_CHARS]}", _AGAIN_S)
    if is_credential_failure(f"{failed.kind}: {failed.text}"):
        return UnauthorisedError(text)
    if failed.kind in _REQUEST_IS_WRONG:
        return GiveUpError(text)
    return RetryLaterError(text, _AGAIN_S)  # a lost connection, a server that was stopped, a request that was cancelled


def is_credential_failure(text: str) -> bool:
    return _NO_CREDENTIALS.search(text) is not None


def _said(failed: CallFailed) -> str:
    """Quote its own words, and the last of what it printed: a set-up's error is there only."""
    words = " ".join(failed.text.split())[:_TEXT_CHARS] or failed.kind
    last = [line.strip() for line in failed.log.splitlines() if line.strip() and not _EMPTY_WORDS.search(line)][-3:]
    return f"{words} ({' / '.join(last)[-_TEXT_CHARS:]})" if last else words
