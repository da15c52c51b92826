"""Blocks in which the KV cache of one request lies."""

from dataclasses import dataclass

import torch

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


@dataclass(slots=True, eq=False)
class GroupBlocks:
    """Live blocks of one window group."""

    units: torch.Tensor
    """(blocks, layers of the group): block b of the request is row b - first_block."""
    first_block: int = 0

    @property
    def end_block(self) -> int:
        return self.first_block + len(self.units)


class BlockTable:
    """Blocks of one request in every window group, and how many tokens are in the cache."""

    def __init__(self, groups: tuple[WindowGroup, ...]) -> None:
        self.tokens = 0
        self.reach = 0
        """Tokens that have room: those of a step under way count, too."""
        self._groups = groups
        self.blocks = [GroupBlocks(torch.empty(0, len(group.layers), dtype=torch.int64)) for group in groups]

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
        end = -(-tokens // BLOCK_TOKENS)
        return sum(
            len(group.layers) * max(0, end - max(held.end_block, self._start(group)))
            for group, held in zip(self._groups, self.blocks, strict=True)
        )

    def grow(self, tokens: int, pool: BlockPool) -> None:
        """Takes units until `tokens` tokens have room."""
        end = -(-tokens // BLOCK_TOKENS)
        for group, held in zip(self._groups, self.blocks, strict=True):
            if not len(held.units):
                held.first_block = self._start(group)
            added = end - held.end_block
            if added > 0:
                layers = len(group.layers)
                held.units = torch.cat((held.units, torch.tensor(pool.take(added * layers)).view(added, layers)))
        self.reach = tokens

    def advance(self, tokens: int, pool: BlockPool) -> None:
        """Count `tokens` tokens as cached, and give back the blocks that no later query sees."""
        self.tokens = tokens
        for group, held in zip(self._groups, self.blocks, strict=True):
            unseen = min(self._start(group) - held.first_block, len(held.units))
            if unseen > 0:
                pool.give_back(held.units[:unseen].flatten().tolist())
                held.units = held.units[unseen:]
                held.first_block += unseen

    def release(self, pool: BlockPool) -> None:
        for held in self.blocks:
            pool.give_back(held.units.flatten().tolist())
            held.units = held.units[:0]

    def _start(self, group: WindowGroup) -> int:
        return group.first_kept_token(self.tokens) // BLOCK_TOKENS
