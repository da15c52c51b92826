"""The security group that nodes on AWS are launched with."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from control.offers.firewall import Firewall, Opening
from control.offers.live.aws_access import AwsClients, asked
from control.offers.live.sky_settings import sky_settings

_PORTS = 0, 65535


def aws_firewall(region: str, environment: Mapping[str, str]) -> Firewall | None:
    """Return the security group that SkyPilot's own settings name (`aws.security_group_name`); None where they name
    none, so that SkyPilot makes one, or where the region has none of the name. Raises SourceError; needed are
    ec2:DescribeSecurityGroups and ec2:DescribeInstances."""
    name = sky_settings(environment, "aws").get("security_group_name")
    if not isinstance(name, str):
        return None
    ec2 = AwsClients.of_environment().get("ec2", region)
    return asked(partial(_group, ec2, name), f"security group {name} in {region}")


def _group(ec2: Any, name: str) -> Firewall | None:
    found = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": [name]}])["SecurityGroups"]
    if not found:
        return None
    identifier = found[0]["GroupId"]
    openings = (each for rule in found[0].get("IpPermissions", ()) for each in _openings(rule, identifier, name))
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance.group-id", "Values": [identifier]}]
    )
    machines = (each for page in pages for group in page["Reservations"] for each in group["Instances"])
    members = {each.get(key) for each in machines for key in ("PrivateIpAddress", "PublicIpAddress")}
    return Firewall(name, tuple(openings), frozenset(str(each) for each in members if each))


def _openings(rule: Mapping[str, Any], identifier: str, name: str) -> Iterator[Opening]:
    if rule["IpProtocol"] not in ("tcp", "6", "-1"):
        return
    first, last = _PORTS if rule["IpProtocol"] == "-1" else (int(rule["FromPort"]), int(rule["ToPort"]))
    blocks = [each["CidrIp"] for each in rule.get("IpRanges", ())]
    blocks += [each["CidrIpv6"] for each in rule.get("Ipv6Ranges", ())]
    groups = [each["GroupId"] for each in rule.get("UserIdGroupPairs", ())]
    lists = [each["PrefixListId"] for each in rule.get("PrefixListIds", ())]
    for source in (*blocks, *groups, *lists):
        yield Opening(first, last, name if source == identifier else source)
