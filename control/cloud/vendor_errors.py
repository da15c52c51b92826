"""Vendors' refusals, and what each means: the one place where a code is read.

A code is the vendor's name of it, or, where it names none, the words that its message always has. `words` is such a
message as the vendor sends it.
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
    words: str

    @property
    def line(self) -> str:
        """Return the error as its vendor or SkyPilot words it."""
        return self.words if self.code in self.words else f"({self.code}) {self.words}"

    def error(self, cloud: str, line: str) -> CloudError:
        text = f"{cloud}: {line}" if self.code in line else f"{cloud}: {self.code}: {line}"
        return RetryLaterError(text, _THROTTLED_S) if self.next_step is RetryLaterError else self.next_step(text)


def _of(cloud: str, next_step: type[CloudError], **words: str) -> tuple[VendorError, ...]:
    return tuple(VendorError(cloud, code, next_step, text) for code, text in words.items())


def _saying(cloud: str, next_step: type[CloudError], *said: tuple[str, str]) -> tuple[VendorError, ...]:
    return tuple(VendorError(cloud, code, next_step, text) for code, text in said)


_AWS = (
    *_of(
        "aws",
        StockOutError,
        InsufficientInstanceCapacity="We currently do not have sufficient g6.xlarge capacity in the Availability Zone "
        "you requested (us-east-1a).",
        InsufficientHostCapacity="There is not enough capacity to fulfill your Dedicated Host request.",
        InsufficientCapacityOnOutpost="There is not enough capacity on the Outpost.",
        UnfulfillableCapacity="Unable to fulfill capacity due to your request configuration.",
        SpotMaxPriceTooLow="Your Spot request price of 0.2 is lower than the minimum required Spot request fulfillment "
        "price of 0.31.",
    ),
    *_of(
        "aws",
        QuotaError,
        MaxSpotInstanceCountExceeded="Max spot instance count exceeded",
        VcpuLimitExceeded="You have requested more vCPU capacity than your current vCPU limit of 0 allows for the "
        "instance bucket that the specified instance type belongs to.",
        InstanceLimitExceeded="You have reached your quota for running instances.",
        InsufficientFreeAddressesInSubnet="There are not enough free addresses in subnet to satisfy the request.",
        VolumeLimitExceeded="You have exceeded your maximum gp3 storage limit in this region.",
        MaxIOPSLimitExceeded="You have exceeded your maximum IOPS limit.",
    ),
    *_of(
        "aws",
        UnauthorisedError,
        UnauthorizedOperation="You are not authorized to perform this operation.",
        AuthFailure="AWS was not able to validate the provided access credentials",
        ExpiredToken="The security token included in the request is expired",
        RequestExpired="Request has expired.",
        InvalidClientTokenId="The security token included in the request is invalid",
        SignatureDoesNotMatch="The request signature we calculated does not match the signature you provided.",
        AccessDenied="User is not authorized to perform: iam:PassRole",
        OptInRequired="You are not subscribed to this service.",
        PendingVerification="Your account is currently being verified.",
        Blocked="This account is currently blocked and not recognized as a valid account.",
    ),
    *_of(
        "aws",
        RetryLaterError,
        RequestLimitExceeded="Request limit exceeded.",
        Throttling="Rate exceeded",
        ThrottlingException="Rate exceeded",
        ServiceUnavailable="The request has failed due to a temporary failure of the server.",
        InternalError="An internal error has occurred",
        Unavailable="The server is overloaded and can't handle the request.",
    ),
    *_of(
        "aws",
        GiveUpError,
        Unsupported="Your requested instance type (p5.48xlarge) is not supported in your requested Availability Zone "
        "(us-east-1e).",
        InvalidParameterValue="Invalid value 'x9.large' for InstanceType.",
        InvalidParameterCombination="The parameter groupName cannot be used with the parameter subnet",
        InvalidBlockDeviceMapping="The value for volume size is too small.",
        **{"InvalidAMIID.NotFound": "The image id '[ami-0123]' does not exist"},
    ),
)
_GCP = (
    *_of(
        "gcp",
        StockOutError,
        ZONE_RESOURCE_POOL_EXHAUSTED="The zone 'projects/p/zones/us-central1-a' does not have enough resources "
        "available to fulfill the request.  Try a different zone, or try again later.",
        ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS="The zone 'projects/p/zones/us-central1-a' does not have enough "
        "resources available to fulfill the request.  '(resource type:compute)'.",
        stockout="A g2-standard-4 VM instance with 1 nvidia-l4 accelerator(s) is currently unavailable in the "
        "us-central1-a zone (reason: stockout).",
        insufficientCapacity="There is insufficient capacity in the zone.",
        UNSUPPORTED_OPERATION="The instance was preempted while it was being created.",
        RESOURCE_NOT_FOUND="The resource 'projects/p/zones/us-central1-a/instances/x' was not found",
    ),
    *_of(
        "gcp",
        QuotaError,
        QUOTA_EXCEEDED="Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1.",
        quotaExceeded="Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.",
    ),
    *_of(
        "gcp",
        UnauthorisedError,
        IAM_PERMISSION_DENIED="Permission 'iam.serviceAccounts.actAs' denied on service account",
        forbidden="Required 'compute.instances.create' permission for 'projects/p/zones/us-central1-a/instances/x'",
        accessNotConfigured="Compute Engine API has not been used in project 1 before or it is disabled.",
        authError="Invalid Credentials",
        invalid_grant="Token has been expired or revoked.",
    ),
    *_of(
        "gcp",
        RetryLaterError,
        rateLimitExceeded="Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'",
        RESOURCE_OPERATION_RATE_EXCEEDED="Operation rate exceeded for resource 'projects/p/global/images/x'.",
        RESOURCE_NOT_READY="The resource 'projects/p/zones/us-central1-a/instances/x' is not ready",
        backendError="Backend Error",
        internalError="Internal error. Please try again or contact Google Support.",
    ),
    *_of(
        "gcp",
        GiveUpError,
        VPC_NOT_FOUND="No VPC with name 'x' is found.",
        SUBNET_NOT_FOUND_FOR_VPC="No subnet for region us-central1 is found.",
        badRequest="Invalid value for field 'resource.machineType'",
        invalid="Invalid value for field 'resource.labels'",
    ),
)
_RUNPOD = (
    # It has no codes. These are words of its API and of its client library; others are told as they are.
    *_saying(
        "runpod",
        StockOutError,
        (
            "no longer any instances available",
            "There are no longer any instances available with the requested specifications. Please refresh and try "
            "again.",
        ),
        ("no instances currently available", "There are no instances currently available"),
        ("does not have the resources", "This machine does not have the resources to deploy your pod."),
    ),
    *_saying("runpod", QuotaError, ("balance is too low", "Your account balance is too low to rent this pod.")),
    *_saying(
        "runpod",
        UnauthorisedError,
        ("Unauthorized", "Unauthorized request, please check your API key."),
    ),
    *_saying(
        "runpod",
        RetryLaterError,
        ("Too Many Requests", "429 Client Error: Too Many Requests"),
        ("Something went wrong", "Something went wrong. Please try again later or contact support."),
    ),
)
_KUBERNETES = (
    *_saying(
        "kubernetes",
        StockOutError,
        ("Insufficient nvidia.com/gpu", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
        ("Insufficient cpu", "0/3 nodes are available: 3 Insufficient cpu."),
        ("Insufficient memory", "0/3 nodes are available: 3 Insufficient memory."),
    ),
    *_saying("kubernetes", QuotaError, ("exceeded quota", 'pods "x" is forbidden: exceeded quota: gpus')),
    *_saying(
        "kubernetes",
        UnauthorisedError,
        ("(403)", '(403) Reason: Forbidden: User cannot create resource "pods"'),
        ("(401)", "(401) Reason: Unauthorized"),
    ),
    *_saying("kubernetes", RetryLaterError, ("(429)", "(429) Reason: Too Many Requests")),
)
VENDOR_ERRORS = (*_AWS, *_GCP, *_RUNPOD, *_KUBERNETES)
VENDOR_ERRORS_BY_CODE = {error.code: error for error in VENDOR_ERRORS}
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
