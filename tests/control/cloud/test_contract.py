"""What every cloud's adapter promises (`control.cloud.port`)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from control.cloud.errors import GiveUpError, StockOutError
from control.cloud.node import CloudNodeState, NodeRequest
from control.cloud.port import Cloud
from templates_lib.values.offer import Market
from tests.control.cloud.harness import STOCK, Harness, request
from tests.control.lifecycle.worlds import START

MINE = {"medley-owner": "me"}


def names(cloud: Cloud) -> list[str]:
    return [node.name for node in cloud.list({}, START)]


class Contract:
    """For the fixture `harness` of whoever inherits it."""

    def test_a_created_node_is_listed_with_its_name_and_tags(self, harness: Harness) -> None:
        cloud = harness.cloud()
        node = cloud.create(harness.request(), START)
        assert (node.name, node.state, node.tags) == ("medley-i1-0-0", CloudNodeState.RUNNING, MINE)
        assert node.provider_id
        assert cloud.list({}, START) == (node,)

    def test_a_name_is_one_node_however_often_it_is_created(self, harness: Harness) -> None:
        with ThreadPoolExecutor(3) as pool:
            nodes = list(pool.map(lambda _: harness.cloud().create(harness.request(secret="another"), START), range(3)))  # noqa: S106
        assert len({node.provider_id for node in nodes}) == 1
        assert harness.cloud().list({}, START) == (nodes[0],)

    def test_a_name_is_not_taken_over_by_another_machine(self, harness: Harness) -> None:
        cloud = harness.cloud()
        node = cloud.create(harness.request(), START)
        with pytest.raises(GiveUpError, match=f"medley-i1-0-0 exists and is a {harness.small}"):
            cloud.create(harness.request(instance_type=harness.large), START)
        assert cloud.list({}, START) == (node,)

    def test_list_names_the_nodes_that_have_all_the_tags_in_order(self, harness: Harness) -> None:
        cloud = harness.cloud()
        for name, tags in (("c", MINE), ("a", {**MINE, "medley-instance": "i1"}), ("b", {"medley-owner": "you"})):
            cloud.create(harness.request(name, tags=tags), START)
        assert names(cloud) == ["a", "b", "c"]
        assert [node.name for node in cloud.list(MINE, START)] == ["a", "c"]
        assert [node.name for node in cloud.list({**MINE, "medley-instance": "i1"}, START)] == ["a"]
        assert cloud.list({"medley-owner": "nobody"}, START) == ()

    def test_a_terminated_node_is_gone_and_the_others_stay(self, harness: Harness) -> None:
        cloud = harness.cloud()
        for name in ("a", "b"):
            cloud.create(harness.request(name), START)
        cloud.terminate("a", START)
        assert names(cloud) == ["b"]

    def test_what_does_not_exist_is_terminated_already(self, harness: Harness) -> None:
        cloud = harness.cloud()
        cloud.terminate("never-was", START)
        cloud.create(harness.request(), START)
        for _ in range(2):
            cloud.terminate("medley-i1-0-0", START)
        assert names(cloud) == []

    def test_a_restarted_control_plane_finds_and_ends_what_it_started(self, harness: Harness) -> None:
        node = harness.cloud().create(harness.request(), START)
        assert harness.cloud().list(MINE, START) == (node,)
        assert harness.cloud().create(harness.request(), START) == node
        harness.cloud().terminate(node.name, START)
        assert names(harness.cloud()) == []

    def test_no_more_nodes_than_there_are_in_stock_and_a_stock_out_leaves_nothing(self, harness: Harness) -> None:
        cloud = harness.cloud()
        for number in range(STOCK):
            cloud.create(harness.request(f"n{number}"), START)
        with pytest.raises(StockOutError, match=harness.small):
            cloud.create(harness.request("one-more"), START)
        cloud.create(harness.request("other-kind", instance_type=harness.large), START)
        assert "one-more" not in names(cloud)
        cloud.terminate("n0", START)
        cloud.create(harness.request("one-more"), START)

    def test_an_unknown_machine_is_refused_with_the_nearest(self, harness: Harness) -> None:
        with pytest.raises(GiveUpError, match=f"did you mean .*'{harness.small}'"):
            harness.cloud().create(harness.request(instance_type=harness.small[:-1]), START)
        assert names(harness.cloud()) == []

    def test_a_node_whose_command_has_ended_is_broken_and_still_listed(self, harness: Harness) -> None:
        cloud = harness.cloud()
        cloud.create(harness.request(), START)
        harness.crash("medley-i1-0-0")
        (node,) = cloud.list(MINE, START)
        assert node.state is CloudNodeState.BROKEN
        cloud.terminate(node.name, START)
        assert names(cloud) == []

    def test_a_node_that_was_taken_away_is_not_listed(self, harness: Harness) -> None:
        cloud = harness.cloud()
        cloud.create(harness.request(), START)
        harness.vanish("medley-i1-0-0")
        assert names(cloud) == []
        cloud.terminate("medley-i1-0-0", START)


class TestContract(Contract):
    """Of clouds that start at once; SkyPilot's is in `test_skypilot`."""


def test_a_request_hides_its_secrets() -> None:
    assert "hidden" not in repr(request())


@pytest.mark.parametrize("name", ["", "Upper", "-a", "a-", "a_b", "a.b", "1a", "a" * 64, "a/../b"])
def test_names_that_some_cloud_refuses_are_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="no node name"):
        request(name)


@pytest.mark.parametrize("tags", [{"Key": "v"}, {"": "v"}, {"k": "V"}, {"k": "a b"}, {"k": "v" * 64}])
def test_tags_that_some_cloud_refuses_are_refused_at_once(tags: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is no tag"):
        NodeRequest("a", "r", "z", "t", Market.SPOT, tags, ("true",))
