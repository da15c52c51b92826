"""Which services leave a memory."""

from hypothesis import given
from hypothesis import strategies as st

from policies.workflows.eviction import evicted

NAMES = st.sampled_from("abcdefgh")


@given(st.dictionaries(NAMES, st.integers(0, 20)), st.sets(NAMES), st.integers(-20, 40), st.integers(0, 30))
def test_as_many_go_as_room_takes_in_their_order_and_none_that_stays(
    held: dict[str, int], stay: set[str], free: int, needs: int
) -> None:
    may_go = [name for name in held if name not in stay]
    gone = evicted(held, stay, free, needs)
    if gone is None:
        assert free + sum(held[name] for name in may_go) < needs
        return
    assert gone == may_go[: len(gone)]
    assert free + sum(held[name] for name in gone) >= needs
    assert not gone or free + sum(held[name] for name in gone[:-1]) < needs
