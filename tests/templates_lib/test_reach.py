"""Which nodes reach each other by private addresses."""

import pytest

from templates_lib.values.reach import Reach, network_of, networks_of
from tests import factories as make


@pytest.mark.parametrize(
    ("cloud", "region", "zone", "network"),
    [
        ("aws", "us-east-2", "use2-az1", "aws/us-east-2"),
        ("azure", "eastus", "eastus", "azure/eastus"),
        ("gcp", "us-east4", "us-east4-a", "gcp"),  # one VPC over all regions
        ("owned", "owned", "hall-a", "owned/hall-a"),
        ("onprem", "berlin", "room-1", "onprem"),  # an offer file's
        ("local", "local", "host", "local"),
    ],
)
def test_a_cloud_says_how_far_its_network_goes(cloud: str, region: str, zone: str, network: str) -> None:
    assert network_of(cloud, region, zone) == network


def test_a_zone_id_leads_to_its_network() -> None:
    offers = [make.offer("L4:1/n10", "aws/use2-az1", 1.0), make.offer("L4:1/n10", "gcp/us-east4-a", 1.0)]
    assert networks_of(offers) == {"aws/use2-az1": "aws/r", "gcp/us-east4-a": "gcp"}


def test_peering_joins_whom_it_names_and_is_not_passed_on() -> None:
    a, b, c = "aws/us-east-1", "aws/us-east-2", "gcp"
    reach = Reach((frozenset({a, b}), frozenset({b, c})))
    assert [reach.joins(*pair) for pair in ((a, a), (a, b), (b, a), (b, c), (a, c))] == [True, True, True, True, False]
    assert not Reach().joins(a, b)


def test_pods_reach_no_other_node_and_are_reached_by_gateways_anywhere() -> None:
    reach = Reach((frozenset({"runpod/any", "aws/us-east-2"}),))
    assert not reach.joins("runpod/any", "runpod/any")
    assert not reach.joins("runpod/any", "aws/us-east-2")
    assert Reach().serves("runpod/any")
    assert Reach(gateways="gcp").serves("runpod/any"), "its cloud publishes its ports"


def test_gateways_reach_their_own_network_and_what_is_joined_to_it() -> None:
    reach = Reach((frozenset({"aws/us-east-2", "gcp"}),), gateways="aws/us-east-2")
    networks = ("aws/us-east-2", "gcp", "aws/us-east-1", "local")
    assert [reach.serves(each) for each in networks] == [True, True, False, True]
    assert Reach().serves("aws/us-east-1"), "nobody says where gateways are"
