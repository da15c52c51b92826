"""Vendors' refusals, and what each means: the one place where a code is read.

A code is the vendor's name of it, or, where it names none, the words that its message always has.
"""

import re
from dataclasses import dataclass

from control.cloud.errors import (
    CloudError,
    GiveUpError,
    QuotaError,
    RetryLaterError,
    StockOutError,
    UnauthorisedError,
)

_THROTTLED_S = 60.0
"""AWS refills its buckets within a minute, and SkyPilot has tried for longer by then."""


@dataclass(frozen=True, slots=True)
class VendorError:
    cloud: str
    code: str
    next_step: type[CloudError]

    def error(self, cloud: str, line: str) -> CloudError:
        text = f"{cloud}: {line}" if self.code in line else f"{cloud}: {self.code}: {line}"
        return RetryLaterError(text, _THROTTLED_S) if self.next_step is RetryLaterError else self.next_step(text)


_CODES: dict[str, dict[type[CloudError], tuple[str, ...]]] = {
    "aws": {
        StockOutError: (
            "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacityOnOutpost",
            "UnfulfillableCapacity", "SpotMaxPriceTooLow",
        ),
        QuotaError: (
            "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded",
            "InsufficientFreeAddressesInSubnet", "VolumeLimitExceeded", "MaxIOPSLimitExceeded",
        ),
        UnauthorisedError: (
            "UnauthorizedOperation", "AuthFailure", "ExpiredToken", "RequestExpired", "InvalidClientTokenId",
            "SignatureDoesNotMatch", "AccessDenied", "OptInRequired", "PendingVerification", "Blocked",
        ),
        RetryLaterError: (
            "RequestLimitExceeded", "Throttling", "ThrottlingException", "ServiceUnavailable", "InternalError",
            "Unavailable",
        ),
        GiveUpError: (
            "Unsupported", "InvalidParameterValue", "InvalidParameterCombination", "InvalidBlockDeviceMapping",
            "InvalidAMIID.NotFound",
        ),
    },
    "gcp": {
        StockOutError: (
            "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "stockout",
            "insufficientCapacity", "UNSUPPORTED_OPERATION", "RESOURCE_NOT_FOUND",
        ),
        QuotaError: ("QUOTA_EXCEEDED", "quotaExceeded"),
        UnauthorisedError: (
            "IAM_PERMISSION_DENIED", "forbidden", "accessNotConfigured", "authError", "invalid_grant",
        ),
        RetryLaterError: (
            "rateLimitExceeded", "RESOURCE_OPERATION_RATE_EXCEEDED", "RESOURCE_NOT_READY", "backendError",
            "internalError",
        ),
        GiveUpError: ("VPC_NOT_FOUND", "SUBNET_NOT_FOUND_FOR_VPC", "badRequest", "invalid"),
    },
    # It has no codes. These are words of its API and of its client library; others are told as they are.
    "runpod": {
        StockOutError: (
            "no longer any instances available", "no instances currently available", "does not have the resources",
        ),
        QuotaError: ("balance is too low",),
        UnauthorisedError: ("Unauthorized",),
        RetryLaterError: ("Too Many Requests", "Something went wrong"),
    },
    "kubernetes": {
        StockOutError: ("Insufficient nvidia.com/gpu", "Insufficient cpu", "Insufficient memory"),
        QuotaError: ("exceeded quota",),
        UnauthorisedError: ("(403)", "(401)"),
        RetryLaterError: ("(429)",),
    },
}  # fmt: skip
VENDOR_ERRORS = tuple(
    VendorError(cloud, code, next_step)
    for cloud, steps in _CODES.items()
    for next_step, codes in steps.items()
    for code in codes
)
_PATTERNS = [
    (e, re.compile(rf"(?<![\w.]){re.escape(e.code)}(?![\w])", re.IGNORECASE * (e.cloud == "runpod")))
    for e in VENDOR_ERRORS
]


def last_vendor_error(cloud: str, text: str) -> tuple[VendorError, str] | None:
    """The refusal that `text` ends with, and its line: earlier ones were worked around."""
    last: tuple[int, VendorError] | None = None
    for vendor_error, pattern in _PATTERNS:
        if vendor_error.cloud == cloud:
            for found in pattern.finditer(text):
                if last is None or found.start() > last[0]:
                    last = found.start(), vendor_error
    if last is None:
        return None
    begin = text.rfind("\n", 0, last[0]) + 1
    end = text.find("\n", last[0])
    return last[1], " ".join(text[begin : None if end < 0 else end].split())
