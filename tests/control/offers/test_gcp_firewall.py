"""The rules of the network that nodes on GCP are launched in, as Compute Engine tells them."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from control.offers.firewall import Firewall, NoNetworkError
from control.offers.live.readers import cloud_readers
from control.offers.live.source import NoAccessError
from tests.control.offers.gcp_endpoint import PROJECT, GcpEndpoint, gcp

REGION, VPC = "us-central1", "serving"
NODES = f"skypilot-v1@{PROJECT}.iam.gserviceaccount.com"
GATEWAY, NODE, OUTSIDE = ip_address("10.1.0.7"), ip_address("10.2.3.4"), ip_address("8.8.8.8")
SCHEDULERS, SSH = (1024, 65535), (22, 22)


def rule(ports: str, *sources: str, denies: bool = False, **more: Any) -> dict[str, Any]:
    what = [{"IPProtocol": "tcp", "ports": [ports]}] if ports else [{"IPProtocol": "all"}]
    of_action = {"denied" if denies else "allowed": what}
    return {"direction": "INGRESS", "priority": 1000, "sourceRanges": list(sources), **of_action, **more}


@pytest.fixture(scope="module")
def vendor() -> Iterator[GcpEndpoint]:
    with gcp() as endpoint:
        yield endpoint


@pytest.fixture
def server(vendor: GcpEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GcpEndpoint:
    for name, value in vendor.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    vendor.subnetworks = {REGION: {VPC: "10.2.0.0/16", "default": "10.128.0.0/20"}}
    vendor.policies, vendor.refuse = [], {}
    return vendor


def read(server: GcpEndpoint, folder: Path, settings: str = f"gcp: {{vpc_name: {VPC}}}") -> Firewall:
    (folder / "sky.yaml").write_text(settings)
    environment = server.environment(folder) | {"SKYPILOT_GLOBAL_CONFIG": str(folder / "sky.yaml")}
    reader = cloud_readers(environment)["gcp"].firewall
    assert reader is not None
    found = reader(REGION)
    assert found is not None
    return found


def test_rules_of_the_named_network_that_are_for_nodes_are_read(server: GcpEndpoint, tmp_path: Path) -> None:
    server.rules = {VPC: [
        rule("1024-65535", "10.1.0.0/24"),
        rule("22", "0.0.0.0/0"),
        rule("", "8.8.8.0/24", targetTags=["others"]),
        rule("", "8.8.8.0/24", disabled=True),
        rule("", "8.8.8.0/24", direction="EGRESS"),
        rule("", "8.8.8.0/24", targetServiceAccounts=["others@example.com"]),
        {"direction": "INGRESS", "priority": 1000, "targetServiceAccounts": [NODES], "sourceServiceAccounts": [NODES],
         "allowed": [{"IPProtocol": "tcp", "ports": ["1024-65535"]}]},
    ]}  # fmt: skip
    found = read(server, tmp_path)
    assert [found.admits([each], *SCHEDULERS) for each in (GATEWAY, OUTSIDE)] == [True, False]
    assert found.admits([OUTSIDE], *SSH)
    assert found.admits_own(*SCHEDULERS)
    assert found.sources(*SCHEDULERS) == ("10.1.0.0/24",)
    assert (found.kind, found.is_whole) == ("network", True)


@pytest.mark.parametrize(
    ("denied", "gateway", "own"),
    [
        (rule("", "0.0.0.0/0", denies=True, priority=65534), True, True),  # what comes before it lets them in
        (rule("", "0.0.0.0/0", denies=True, priority=1000), False, False),
        (rule("9000", "10.1.0.0/16", denies=True, priority=10), False, True),
        (rule("80", "0.0.0.0/0", denies=True, priority=10), True, True),
        (rule("", "192.168.0.0/16", denies=True, priority=10), True, True),
    ],
)
def test_of_rules_that_meet_the_first_one_counts(
    server: GcpEndpoint, tmp_path: Path, denied: dict[str, Any], gateway: bool, own: bool
) -> None:
    server.rules = {VPC: [rule("", "10.0.0.0/8"), denied]}
    found = read(server, tmp_path)
    assert (found.admits([GATEWAY], *SCHEDULERS), found.admits_own(*SCHEDULERS)) == (gateway, own)


def test_nodes_that_no_rule_lets_in_do_not_reach_each_other(server: GcpEndpoint, tmp_path: Path) -> None:
    server.rules = {VPC: [rule("1024-65535", "10.2.3.0/24"), rule("80", "10.0.0.0/8")]}
    found = read(server, tmp_path)
    assert found.admits([NODE], *SCHEDULERS)
    assert not found.admits_own(*SCHEDULERS), "others of its block are left out"


def test_policies_of_an_organisation_count_before_and_those_of_every_network_do_not(
    server: GcpEndpoint, tmp_path: Path
) -> None:
    server.rules = {VPC: [rule("", "0.0.0.0/0")]}
    passed_on = {"direction": "INGRESS", "action": "goto_next", "priority": 2147483645}
    for policy, is_whole in ((passed_on, True), (passed_on | {"action": "deny"}, False)):
        server.policies = [{"name": "1", "rules": [policy]}]
        assert read(server, tmp_path).is_whole is is_whole


@pytest.mark.parametrize(("network", "region"), [("another", "us-central1"), (VPC, "us-east4")])
def test_a_network_that_nothing_can_be_launched_in_is_named(
    server: GcpEndpoint, tmp_path: Path, network: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.rules = {VPC: []}
    monkeypatch.setitem(server.subnetworks, REGION, {VPC: "10.2.0.0/16"} if region == REGION else {})
    with pytest.raises(NoNetworkError, match=network):
        read(server, tmp_path, f"gcp: {{vpc_name: {network}}}")


def test_where_none_is_named_skypilots_own_lets_in_its_network_and_ssh(server: GcpEndpoint, tmp_path: Path) -> None:
    asked = len(server.own.asked)
    found = read(server, tmp_path, "aws: {}")
    assert len(server.own.asked) == asked, "nobody is asked"
    assert found.admits_own(*SCHEDULERS)
    assert [found.admits([each], *SCHEDULERS) for each in (ip_address("10.128.0.9"), OUTSIDE)] == [True, False]
    assert found.admits([OUTSIDE], *SSH)


def test_without_the_right_to_look_it_is_not_known(server: GcpEndpoint, tmp_path: Path) -> None:
    server.refuse = {"getEffectiveFirewalls": [403]}
    with pytest.raises(NoAccessError, match="firewall rules of network serving"):
        read(server, tmp_path)
