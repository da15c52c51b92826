"""Firewalls of nodes let in who has to reach them."""

from dataclasses import replace
from ipaddress import ip_address

import pytest

from control.offers.cloud_reader import CloudReader
from control.offers.firewall import Firewall, NoNetworkError, Opening
from control.preflight.finding import Status
from control.preflight.firewalls import of_firewalls
from control.preflight.planned import Planned
from tests.control.preflight.launches import PUBLIC, quota

OWN = Opening(1024, 65535, "nodes")
ALL_OWN = (Opening(0, 65535, "nodes"),)


@pytest.mark.parametrize(
    ("openings", "status"),
    [
        ((Opening(1024, 65535, "8.8.0.0/16"), Opening(22, 22, "8.8.8.8/32"), OWN), Status.PASS),
        ((Opening(1024, 65535, "8.8.0.0/16"), Opening(22, 22, "8.8.8.8/32")), Status.FAIL),  # nodes hand KV caches over
        (ALL_OWN, Status.PASS),  # the control plane is one of its own machines
        ((Opening(1024, 65535, "10.0.0.0/16"), Opening(22, 22, "8.8.8.8/32"), OWN), Status.UNKNOWN),
        ((Opening(1024, 65535, "sg-0123"), Opening(22, 22, "sg-0123"), OWN), Status.UNKNOWN),
        ((Opening(1024, 2048, "0.0.0.0/0"), Opening(22, 22, "8.8.8.8/32"), OWN), Status.FAIL),
        ((), Status.FAIL),
        (None, Status.UNKNOWN),  # SkyPilot makes one
    ],
)
def test_the_firewall_of_nodes_lets_gateways_and_ssh_in(
    made: Planned, openings: tuple[Opening, ...] | None, status: Status
) -> None:
    members = frozenset({PUBLIC} if openings is ALL_OWN else ())
    firewall = None if openings is None else Firewall("nodes", openings, members)
    reader = CloudReader(quota, firewall=lambda _: firewall)
    found = {each.status for each in of_firewalls(made, "aws", reader, [ip_address(PUBLIC)])}
    assert max(found, key=[Status.PASS, Status.UNKNOWN, Status.FAIL].index) is status


def test_a_policy_that_counts_before_or_a_network_that_is_missing_is_said(made: Planned) -> None:
    whole = Firewall("vpc", (Opening(0, 65535, "0.0.0.0/0"),), kind="network", blocks=("10.0.0.0/8",))
    for is_whole, status in ((True, Status.PASS), (False, Status.UNKNOWN)):
        given = replace(whole, is_whole=is_whole)
        reader = CloudReader(quota, firewall=lambda _, given=given: given)
        assert {each.status for each in of_firewalls(made, "aws", reader, [ip_address(PUBLIC)])} == {status}

    def missing(_: str) -> Firewall:
        raise NoNetworkError("network vpc is not in project p")

    (found,) = of_firewalls(made, "aws", CloudReader(quota, firewall=missing), [])
    assert (found.name, found.status, "vpc" in found.detail) == ("firewall.nodes", Status.FAIL, True)
