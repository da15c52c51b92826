"""AWS's zones by an account's names for them: `us-east-1a` is `use1-az2` to one and `use1-az4` to another."""

import functools
import re

import boto3

_ZONE_ID = re.compile(r"[a-z]{2,5}\d-[a-z]{2,4}\d?-?az\d|[a-z]{2,5}\d-az\d")


@functools.cache
def aws_zones(region: str) -> dict[str, str]:
    """Zone id → zone name, of the availability zones of the region that are open to this account."""
    answer = boto3.client("ec2", region_name=region).describe_availability_zones()
    zones = answer["AvailabilityZones"]
    return {zone["ZoneId"]: zone["ZoneName"] for zone in zones if zone.get("ZoneType") == "availability-zone"}


def aws_zone(region: str, zone: str) -> str:
    """The name of a zone of which the name or the id is given."""
    return aws_zones(region).get(zone, zone) if _ZONE_ID.fullmatch(zone) else zone
