import pytest

from agents.kv_pool.block_layout import MOST_BYTES, block_bytes, block_tokens


@pytest.mark.parametrize(
    "rows", [{"a": 128}, {"a": 128, "b": 256}, {"a": 160, "b": 256}, {"a": 192, "b": 512, "c": 128}, {"a": 1024}]
)
def test_rows_of_every_member_fill_a_block(rows: dict[str, int]) -> None:
    size = block_bytes(rows)
    assert size <= MOST_BYTES
    assert all(block_tokens(size, row) * row == size for row in rows.values())


def test_members_that_no_pool_holds_are_named() -> None:
    with pytest.raises(ValueError, match=r"odd 998 bytes.*plain 256 bytes"):
        block_bytes({"plain": 256, "odd": 998})
    with pytest.raises(ValueError, match="fill"):
        block_tokens(8192, 160)
