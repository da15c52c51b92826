"""What the KV cache of one member of a unit looks like in blocks of the common pool."""

from dataclasses import dataclass

from agents.kv_pool.block_layout import block_tokens


@dataclass(frozen=True, slots=True)
class MemberShape:
    name: str
    row_bytes: int
    """Of a token's keys, or values, of one head."""
    units: int
    """Layers x KV heads x 2: blocks of the pool that a request takes together, by layer, head and side."""

    def block_tokens(self, block_bytes: int) -> int:
        """Return the tokens of a block. Raises ValueError where rows do not fill it."""
        return block_tokens(block_bytes, self.row_bytes)

    def blocks(self, tokens: float, block_bytes: int) -> int:
        """Return the blocks of the pool that so many tokens take. Raises ValueError as `block_tokens`."""
        return self.units * int(-(-tokens // self.block_tokens(block_bytes)))
