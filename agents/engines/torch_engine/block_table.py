"""Blocks in which the KV cache of one request lies."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from agents.engines.torch_engine.block_pool import Blocks

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """Held layers with the same sliding window: they keep the same tokens, so they share one list of blocks."""

    window: int
    """0: all tokens are kept."""
    layers: tuple[int, ...]
    """Indices among the held layers."""
    block_tokens: int = BLOCK_TOKENS
    width: int = 1
    """Units of each layer in a block: all heads are in one, or keys and values of each head in one of their own."""

    @property
    def units(self) -> int:
        """Count the units of a block."""
        return self.width * len(self.layers)

    def first_kept_token(self, tokens: int) -> int:
        """The oldest position that the query at position `tokens` still sees."""
        return max(0, tokens - self.window + 1) if self.window else 0


@dataclass(slots=True, eq=False)
class GroupBlocks:
    """Live blocks of one window group."""

    units: torch.Tensor
    """(blocks, units of a block, layer by layer): block b of the request is row b - first_block."""
    first_block: int = 0

    @property
    def end_block(self) -> int:
        return self.first_block + len(self.units)


class BlockTable:
    """Blocks of one request in every window group, and how many tokens are in the cache."""

    def __init__(self, groups: tuple[WindowGroup, ...]) -> None:
        self.tokens = 0
        self.reach = 0
        """Tokens that have room: those of a step under way count, too, and of a draft."""
        self._groups = groups
        self.blocks = [GroupBlocks(torch.empty(0, group.units, dtype=torch.int64)) for group in groups]

    @classmethod
    def behind(cls, groups: tuple[WindowGroup, ...], shared: list[list[torch.Tensor]]) -> "BlockTable":
        """Return the table of a request that begins with full blocks of others. `shared`: of each, by group, its units
        (layers of the group,)."""
        table = cls(groups)
        table.tokens = table.reach = len(shared) * BLOCK_TOKENS
        for held, units in zip(table.blocks, zip(*shared, strict=True), strict=True):
            held.units = torch.stack(units)
        return table

    def block(self, block: int) -> list[torch.Tensor]:
        """Units of one block, by group (layers of the group,). Raises IndexError where it is not held."""
        return [held.units[block - held.first_block] for held in self.blocks]

    def units_to_reach(self, tokens: int) -> int:
        """Units to take before `tokens` tokens have room, without what growing would free."""
        return sum(
            group.units * max(0, _blocks(group, tokens) - max(held.end_block, self._start(group)))
            for group, held in zip(self._groups, self.blocks, strict=True)
        )

    def grow(self, tokens: int, take: Callable[[int], list[int]]) -> None:
        """Takes units until `tokens` tokens have room: `units_to_reach` of them, in all calls of `take` together."""
        for group, held in zip(self._groups, self.blocks, strict=True):
            if not len(held.units):
                held.first_block = self._start(group)
            added = _blocks(group, tokens) - held.end_block
            if added > 0:
                taken = torch.tensor(take(added * group.units)).view(added, group.units)
                held.units = torch.cat((held.units, taken))
        self.reach = tokens

    def advance(self, tokens: int, pool: Blocks) -> None:
        """Count `tokens` tokens as cached, and give back the blocks that no later query sees."""
        self.tokens = tokens
        for group, held in zip(self._groups, self.blocks, strict=True):
            unseen = min(self._start(group) - held.first_block, len(held.units))
            if unseen > 0:
                pool.give_back(held.units[:unseen].flatten().tolist())
                held.units = held.units[unseen:]
                held.first_block += unseen

    def release(self, pool: Blocks) -> None:
        for held in self.blocks:
            pool.give_back(held.units.flatten().tolist())
            held.units = held.units[:0]

    def _start(self, group: WindowGroup) -> int:
        return group.first_kept_token(self.tokens) // group.block_tokens


def _blocks(group: WindowGroup, tokens: int) -> int:
    return -(-tokens // group.block_tokens)
