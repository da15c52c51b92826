"""EC2 instances by tag, in every region that is open to the account."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.exceptions import ClientError

from control.cloud.skypilot.labels import NODE_LABEL, OWNER_LABEL
from control.cloud.skypilot.messages import Machine, SweepMachines

_AT_ONCE = 8
_EXISTING = ("pending", "running", "stopping", "stopped")
"""An instance that is shutting down is not billed any more."""


def machines(sweep: SweepMachines) -> list[Machine]:
    regions = _ec2(os.environ.get("AWS_DEFAULT_REGION", "us-east-1")).describe_regions()["Regions"]
    names = [region["RegionName"] for region in regions]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [machine for found in pool.map(lambda name: _of_region(name, sweep.owner), names) for machine in found]


def end(machine: Machine) -> None:
    try:
        _ec2(machine.place).terminate_instances(InstanceIds=[machine.provider_id])
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidInstanceID.NotFound":
            raise


def _of_region(region: str, owner: str) -> list[Machine]:
    filters = [
        {"Name": f"tag:{OWNER_LABEL}", "Values": [owner]},
        {"Name": "instance-state-name", "Values": list(_EXISTING)},
    ]
    pages = _ec2(region).get_paginator("describe_instances").paginate(Filters=filters)
    reservations = [reservation for page in pages for reservation in page["Reservations"]]
    return [_machine(region, instance) for each in reservations for instance in each["Instances"]]


def _machine(region: str, instance: dict[str, Any]) -> Machine:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    stopped = instance["State"]["Name"] in ("stopping", "stopped")
    name = tags.get(NODE_LABEL, instance["InstanceId"])
    return Machine(name, instance["InstanceId"], region, instance["InstanceType"], stopped, tags)


def _ec2(region: str) -> Any:
    return boto3.client("ec2", region_name=region)
