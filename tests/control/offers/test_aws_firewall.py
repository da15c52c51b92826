"""The security group of nodes on AWS, as EC2 (moto's) tells it."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from control.offers.firewall import Firewall
from control.offers.live.aws_firewall import aws_firewall

REGION, NAME = "us-east-2", "medley-nodes"


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield boto3.client("ec2", region_name=REGION)


def read(folder: Path, settings: str = f"aws: {{security_group_name: {NAME}}}") -> Firewall | None:
    (folder / "config.yaml").write_text(settings)
    return aws_firewall(REGION, {"SKYPILOT_GLOBAL_CONFIG": str(folder / "config.yaml")})


def test_the_group_that_skypilots_settings_name_is_read_with_its_machines(ec2: Any, tmp_path: Path) -> None:
    group = ec2.create_security_group(GroupName=NAME, Description="of nodes")["GroupId"]
    own = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    tcp = {"IpProtocol": "tcp", "FromPort": 1024, "ToPort": 65535, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}
    udp = {"IpProtocol": "udp", "FromPort": 0, "ToPort": 65535, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[own, tcp, udp])
    made = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, SecurityGroupIds=[group])["Instances"][0]
    found = read(tmp_path)
    assert found is not None
    inside, outside, member = ip_address("10.0.3.4"), ip_address("10.1.3.4"), ip_address(made["PrivateIpAddress"])
    assert [found.admits([each], 1024, 65535) for each in (inside, outside, member)] == [True, False, True]
    assert [found.admits([each], 22, 22) for each in (inside, member)] == [False, True]
    assert (found.sources(1024, 65535), found.sources(22, 22)) == (("10.0.0.0/16",), ())


@pytest.mark.parametrize("settings", ["", "aws: {vpc_name: mine}", "aws: {security_group_name: another}"])
def test_a_group_that_nobody_names_or_that_is_not_there_is_none(ec2: Any, tmp_path: Path, settings: str) -> None:
    assert read(tmp_path, settings) is None
