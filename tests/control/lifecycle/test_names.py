"""Names are the same whoever makes them, and such as every cloud takes."""

from hypothesis import given
from hypothesis import strategies as st

from control.cloud.node import NodeRequest
from control.lifecycle.names import instance_id, node_name
from templates_lib.values.offer import Market

COLUMNS = st.tuples(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), st.sampled_from(Market))


@given(COLUMNS, st.integers(0, 10**6), st.integers(0, 99), st.integers(0, 999))
def test_names_follow_from_what_they_name_and_fit_every_cloud(
    column: tuple[str, str, str, Market], copy: int, place: int, attempt: int
) -> None:
    name = instance_id(*column, copy)
    assert name == instance_id(*column, copy)
    node = node_name(name, place, attempt)
    assert len(node) <= 35  # GCP's limit with what SkyPilot appends
    NodeRequest(node, "r", "z", "t", Market.SPOT, {"medley-instance": name}, ("true",))


@given(COLUMNS, COLUMNS, st.integers(0, 99), st.integers(0, 99))
def test_different_instances_have_different_names(
    one: tuple[str, str, str, Market], other: tuple[str, str, str, Market], copy: int, other_copy: int
) -> None:
    same = (one, copy) == (other, other_copy)
    assert (instance_id(*one, copy) == instance_id(*other, other_copy)) == same


def test_neighbouring_parts_do_not_run_together() -> None:
    assert instance_id("ab", "c", "z", Market.SPOT, 1) != instance_id("a", "bc", "z", Market.SPOT, 1)
