"""Size of the blocks of a pool: one that rows of every member's heads fill without a rest."""

from collections.abc import Mapping
from math import lcm

ABOUT_BYTES = 8192
"""A block is as near to that as members' rows allow: 16 tokens of a head of 256 numbers in bf16, 64 of one of 64."""
MOST_BYTES = 65_536
"""A larger one would leave most of the last block of a short request empty."""
PAGE = 4096


def block_bytes(row_bytes: Mapping[str, int]) -> int:
    """Return bytes of a block. `row_bytes`: member → bytes of a token's keys (or values) of a head. Raises ValueError,
    with the members, where their rows have no common multiple within `MOST_BYTES`."""
    if not row_bytes or min(row_bytes.values()) < 1:
        raise ValueError(f"rows of a head take 1 byte or more: {dict(row_bytes)}")
    common = lcm(*row_bytes.values())
    if common > MOST_BYTES:
        rows = ", ".join(f"{name} {size} bytes" for name, size in sorted(row_bytes.items()))
        raise ValueError(
            f"no pool holds heads of all of {rows}: blocks that all of them fill would have {common} bytes, of at most "
            f"{MOST_BYTES}; put members of other head sizes into a unit of their own"
        )
    return common * max(1, ABOUT_BYTES // common)


def block_tokens(block: int, row_bytes: int) -> int:
    """Return tokens of a block for one KV head. Raises ValueError where its rows do not fill it."""
    if block % row_bytes:
        raise ValueError(f"rows of {row_bytes} bytes do not fill blocks of {block} bytes")
    return block // row_bytes
