"""Where the KV cache of one request lies."""

from dataclasses import dataclass, field

from agents.engines.torch_engine.block_pool import BlockPool

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """Held layers with the same sliding window: they keep the same tokens, so they share one list of blocks."""

    window: int
    """0: all tokens are kept."""
    layers: tuple[int, ...]
    """Indices among the held layers."""

    def first_kept_token(self, tokens: int) -> int:
        """The oldest position that the query at position `tokens` still sees."""
        return max(0, tokens - self.window + 1) if self.window else 0


@dataclass(slots=True)
class GroupBlocks:
    """Live blocks of one window group: block b of the request is `units[b - first_block]`, one unit a layer."""

    first_block: int = 0
    units: list[list[int]] = field(default_factory=list)

    @property
    def end_block(self) -> int:
        return self.first_block + len(self.units)


class BlockTable:
    """Blocks of one request in every window group, and how many tokens are in the cache."""

    def __init__(self, groups: tuple[WindowGroup, ...]) -> None:
        self.tokens = 0
        self._groups = groups
        self.blocks = [GroupBlocks() for _ in groups]

    def units_to_reach(self, tokens: int) -> int:
        """Units to take before `tokens` tokens have room, without what growing would free."""
        end = -(-tokens // BLOCK_TOKENS)
        return sum(
            len(group.layers) * max(0, end - max(held.end_block, self._start(group)))
            for group, held in zip(self._groups, self.blocks, strict=True)
        )

    def grow(self, tokens: int, pool: BlockPool) -> None:
        """Takes units until `tokens` tokens have room."""
        end = -(-tokens // BLOCK_TOKENS)
        for group, held in zip(self._groups, self.blocks, strict=True):
            if not held.units:
                held.first_block = self._start(group)
            while held.end_block < end:
                held.units.append(pool.take(len(group.layers)))

    def advance(self, tokens: int, pool: BlockPool) -> None:
        """Now `tokens` tokens are in the cache: blocks that no later query sees go back."""
        self.tokens = tokens
        for group, held in zip(self._groups, self.blocks, strict=True):
            while held.units and held.first_block < self._start(group):
                pool.give_back(held.units.pop(0))
                held.first_block += 1

    def release(self, pool: BlockPool) -> None:
        for held in self.blocks:
            for units in held.units:
                pool.give_back(units)
            held.units.clear()

    def _start(self, group: WindowGroup) -> int:
        return group.first_kept_token(self.tokens) // BLOCK_TOKENS
