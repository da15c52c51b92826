"""Refusals of vendors by code, in the words in which the vendor sends each."""

VENDOR_WORDS = {
    "InsufficientInstanceCapacity": (
        "We currently do not have sufficient g6.xlarge capacity in the Availability Zone you requested (us-east-1a)."
    ),
    "InsufficientHostCapacity": "There is not enough capacity to fulfill your Dedicated Host request.",
    "InsufficientCapacityOnOutpost": "There is not enough capacity on the Outpost.",
    "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration.",
    "SpotMaxPriceTooLow": (
        "Your Spot request price of 0.2 is lower than the minimum required Spot request fulfillment price of 0.31."
    ),
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "VcpuLimitExceeded": (
        "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket "
        "that the specified instance type belongs to."
    ),
    "InstanceLimitExceeded": "You have reached your quota for running instances.",
    "InsufficientFreeAddressesInSubnet": "There are not enough free addresses in subnet to satisfy the request.",
    "VolumeLimitExceeded": "You have exceeded your maximum gp3 storage limit in this region.",
    "MaxIOPSLimitExceeded": "You have exceeded your maximum IOPS limit.",
    "UnauthorizedOperation": "You are not authorized to perform this operation.",
    "AuthFailure": "AWS was not able to validate the provided access credentials",
    "ExpiredToken": "The security token included in the request is expired",
    "RequestExpired": "Request has expired.",
    "InvalidClientTokenId": "The security token included in the request is invalid",
    "SignatureDoesNotMatch": "The request signature we calculated does not match the signature you provided.",
    "AccessDenied": "User is not authorized to perform: iam:PassRole",
    "OptInRequired": "You are not subscribed to this service.",
    "PendingVerification": "Your account is currently being verified.",
    "Blocked": "This account is currently blocked and not recognized as a valid account.",
    "RequestLimitExceeded": "Request limit exceeded.",
    "Throttling": "Rate exceeded",
    "ThrottlingException": "Rate exceeded",
    "ServiceUnavailable": "The request has failed due to a temporary failure of the server.",
    "InternalError": "An internal error has occurred",
    "Unavailable": "The server is overloaded and can't handle the request.",
    "Unsupported": (
        "Your requested instance type (p5.48xlarge) is not supported in your requested Availability Zone (us-east-1e)."
    ),
    "InvalidParameterValue": "Invalid value 'x9.large' for InstanceType.",
    "InvalidParameterCombination": "The parameter groupName cannot be used with the parameter subnet",
    "InvalidBlockDeviceMapping": "The value for volume size is too small.",
    "InvalidAMIID.NotFound": "The image id '[ami-0123]' does not exist",
    "ZONE_RESOURCE_POOL_EXHAUSTED": (
        "The zone 'projects/p/zones/us-central1-a' does not have enough resources available to fulfill the "
        "request.  Try a different zone, or try again later."
    ),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": (
        "The zone 'projects/p/zones/us-central1-a' does not have enough resources available to fulfill the "
        "request.  '(resource type:compute)'."
    ),
    "stockout": (
        "A g2-standard-4 VM instance with 1 nvidia-l4 accelerator(s) is currently unavailable in the "
        "us-central1-a zone (reason: stockout)."
    ),
    "insufficientCapacity": "There is insufficient capacity in the zone.",
    "UNSUPPORTED_OPERATION": "The instance was preempted while it was being created.",
    "RESOURCE_NOT_FOUND": "The resource 'projects/p/zones/us-central1-a/instances/x' was not found",
    "QUOTA_EXCEEDED": "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1.",
    "quotaExceeded": "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.",
    "IAM_PERMISSION_DENIED": "Permission 'iam.serviceAccounts.actAs' denied on service account",
    "forbidden": "Required 'compute.instances.create' permission for 'projects/p/zones/us-central1-a/instances/x'",
    "accessNotConfigured": "Compute Engine API has not been used in project 1 before or it is disabled.",
    "authError": "Invalid Credentials",
    "invalid_grant": "Token has been expired or revoked.",
    "rateLimitExceeded": "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'",
    "RESOURCE_OPERATION_RATE_EXCEEDED": "Operation rate exceeded for resource 'projects/p/global/images/x'.",
    "RESOURCE_NOT_READY": "The resource 'projects/p/zones/us-central1-a/instances/x' is not ready",
    "backendError": "Backend Error",
    "internalError": "Internal error. Please try again or contact Google Support.",
    "VPC_NOT_FOUND": "No VPC with name 'x' is found.",
    "SUBNET_NOT_FOUND_FOR_VPC": "No subnet for region us-central1 is found.",
    "badRequest": "Invalid value for field 'resource.machineType'",
    "invalid": "Invalid value for field 'resource.labels'",
    "no longer any instances available": (
        "There are no longer any instances available with the requested specifications. Please refresh and try again."
    ),
    "no instances currently available": "There are no instances currently available",
    "does not have the resources": "This machine does not have the resources to deploy your pod.",
    "balance is too low": "Your account balance is too low to rent this pod.",
    "Unauthorized": "Unauthorized request, please check your API key.",
    "Too Many Requests": "429 Client Error: Too Many Requests",
    "Something went wrong": "Something went wrong. Please try again later or contact support.",
    "Insufficient nvidia.com/gpu": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    "Insufficient cpu": "0/3 nodes are available: 3 Insufficient cpu.",
    "Insufficient memory": "0/3 nodes are available: 3 Insufficient memory.",
    "exceeded quota": 'pods "x" is forbidden: exceeded quota: gpus',
    "(403)": '(403) Reason: Forbidden: User cannot create resource "pods"',
    "(401)": "(401) Reason: Unauthorized",
    "(429)": "(429) Reason: Too Many Requests",
}


def vendor_line(code: str) -> str:
    """The refusal as its vendor or SkyPilot words it. KeyError for a code of nobody's."""
    words = VENDOR_WORDS[code]
    return words if code in words else f"({code}) {words}"
