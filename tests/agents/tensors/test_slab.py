"""No byte of a slab has two owners, and none is lost."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agents.tensors.slab import ALIGNMENT, Extent, Slab, padded

PAGES = 16
ACCOUNTS = ("a", "b")
ACTION = st.one_of(
    st.tuples(
        st.just("allocate"), st.integers(1, 6 * ALIGNMENT), st.integers(1, 3), st.sampled_from(ACCOUNTS)
    ),
    st.tuples(st.sampled_from(["hold", "drop", "drop", "charge"]), st.integers(0, 30)),
)  # fmt: skip


@given(st.lists(ACTION, max_size=60))
def test_bytes_are_free_or_in_one_extent_that_is_held(actions: list[tuple]) -> None:
    slab = Slab(PAGES * ALIGNMENT)
    held: list[tuple[Extent, str]] = []
    """One entry for each holder."""
    for action in actions:
        match action:
            case ("allocate", size, part_pages, account):
                gaps = gaps_of({extent for extent, _ in held})
                extents = slab.allocate(size, part_pages * ALIGNMENT, account)
                assert (extents is not None) == (max(gaps, default=0) >= padded(size)), "it fits or it does not"
                for extent in extents or ():
                    assert not extent.offset % ALIGNMENT
                    held.append((extent, account))
                if extents is not None:
                    assert sum(extent.size for extent in extents) == size
                    for before, after in pairwise(extents):
                        assert before.offset + before.size == after.offset, "they follow each other"
            case ("hold", number) if held:
                extent, account = held[number % len(held)]
                slab.hold(extent)
                held.append((extent, account))
            case ("drop", number) if held:
                slab.drop(held.pop(number % len(held))[0])
            case ("charge", number) if held:
                moved = held[number % len(held)][0]
                slab.charge(moved, "b")
                held = [(extent, "b" if extent == moved else account) for extent, account in held]
        owned = dict(held)
        ranges = sorted((extent.offset, extent.offset + padded(extent.size)) for extent in owned)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ranges))
        assert slab.free_bytes == slab.size - sum(end - begin for begin, end in ranges)
        for account in ACCOUNTS:
            assert slab.charged(account) == sum(padded(each.size) for each, its in owned.items() if its == account)
        for extent in owned:
            assert slab.at(extent.offset) == extent
            assert slab.is_held_once(extent) == (sum(each == extent for each, _ in held) == 1)
    for extent, _ in held:
        slab.drop(extent)
    whole = slab.allocate(slab.size, slab.size, "a")
    assert whole == (Extent(0, slab.size),), "what came back is one piece again"


def gaps_of(extents: set[Extent]) -> list[int]:
    """Sizes of what lies between extents."""
    at, gaps = 0, []
    for extent in sorted(extents, key=lambda each: each.offset):
        gaps.append(extent.offset - at)
        at = extent.offset + padded(extent.size)
    return [*gaps, PAGES * ALIGNMENT - at]
