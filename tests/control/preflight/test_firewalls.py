"""Firewalls of nodes let in who has to reach them."""

from ipaddress import ip_address

import pytest

from control.offers.cloud_reader import CloudReader
from control.offers.firewall import Firewall, Opening
from control.preflight.finding import Status
from control.preflight.firewalls import of_firewalls
from control.preflight.planned import Planned
from tests.control.preflight.launches import PUBLIC, quota


@pytest.mark.parametrize(
    ("openings", "status"),
    [
        ((Opening(1024, 65535, "8.8.0.0/16"), Opening(22, 22, "8.8.8.8/32")), Status.PASS),
        ((Opening(0, 65535, "nodes"),), Status.PASS),  # it is one of its own machines
        ((Opening(1024, 65535, "10.0.0.0/16"), Opening(22, 22, "8.8.8.8/32")), Status.UNKNOWN),
        ((Opening(1024, 65535, "sg-0123"), Opening(22, 22, "sg-0123")), Status.UNKNOWN),
        ((Opening(1024, 2048, "0.0.0.0/0"), Opening(22, 22, "8.8.8.8/32")), Status.FAIL),
        ((), Status.FAIL),
        (None, Status.UNKNOWN),  # SkyPilot makes one
    ],
)
def test_the_firewall_of_nodes_lets_gateways_and_ssh_in(
    made: Planned, openings: tuple[Opening, ...] | None, status: Status
) -> None:
    firewall = None if openings is None else Firewall("nodes", openings, frozenset({PUBLIC}))
    reader = CloudReader(quota, firewall=lambda _: firewall)
    found = {each.status for each in of_firewalls(made, "aws", reader, [ip_address(PUBLIC)])}
    assert max(found, key=[Status.PASS, Status.UNKNOWN, Status.FAIL].index) is status
