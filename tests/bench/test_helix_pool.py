import pytest

from bench.evaluation.helix_pool import PlacedNode, helix_pool


def node(first_layer: int, layers: int, requests_per_s: float) -> PlacedNode:
    return PlacedNode("T4:1/n10", first_layer, layers, requests_per_s, 0.5)


def test_a_chain_serves_what_its_slowest_node_passes() -> None:
    pool = helix_pool([node(0, 4, 3.0), node(4, 4, 2.0), node(8, 2, 5.0)], layers=10)
    assert pool.requests_per_s == pytest.approx(2.0)
    assert pool.usd_per_hour == pytest.approx(1.5)


def test_peers_of_one_layer_range_add_up() -> None:
    pool = helix_pool([node(0, 5, 4.0), node(5, 5, 1.5), node(5, 5, 1.5)], layers=10)
    assert pool.requests_per_s == pytest.approx(3.0)


def test_a_request_may_enter_a_node_in_the_middle_of_its_layers() -> None:
    pool = helix_pool([node(0, 6, 2.0), node(4, 6, 2.0)], layers=10)
    assert pool.requests_per_s == pytest.approx(2.0)


def test_a_missing_layer_serves_nothing_and_still_costs() -> None:
    pool = helix_pool([node(0, 4, 2.0), node(5, 5, 2.0)], layers=10)
    assert pool.requests_per_s == pytest.approx(0.0)
    assert pool.usd_per_hour == pytest.approx(1.0)
