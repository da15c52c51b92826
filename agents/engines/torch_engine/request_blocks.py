"""Which request holds which units of a KV cache, wherever its memory is."""

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import torch

from agents.engines.batch import BlockName, StepBatch, StepRequest
from agents.engines.errors import BadBatchError, UnknownRequestError
from agents.engines.torch_engine.block_pool import Blocks
from agents.engines.torch_engine.block_table import BLOCK_TOKENS, BlockTable, WindowGroup


class RequestBlocks:
    """Accounts of a KV cache. Thread-safe: one thread may make room while another's step computes."""

    def __init__(self, groups: tuple[WindowGroup, ...], pool: Blocks, encoded_tokens: int = 0) -> None:
        """`encoded_tokens`: rows of an encoder that every request attends to, which take room beside its tokens, in
        layers of one group."""
        self.groups = groups
        self.layers = sum(len(group.layers) for group in groups)
        self.place_of = {layer: (g, i) for g, group in enumerate(groups) for i, layer in enumerate(group.layers)}
        """Held layer → its group, and its place in the group."""
        self._changing = threading.Lock()
        """Held for a moment, while units change hands."""
        self._pool = pool
        self._tables: dict[str, BlockTable] = {}
        self.encoded_tokens = encoded_tokens
        self._encoded: dict[str, BlockTable] = {}
        """Where keys and values of its encoded rows lie, by request."""
        self.attending: set[str] = set()
        """Requests whose encoded rows are there."""
        self._kept: dict[BlockName, list[torch.Tensor]] = {}
        """Blocks of requests that were freed: units (layers of the group,) by group."""

    @property
    def shares(self) -> bool:
        """Whether blocks can be kept and shared: not those of layers with a window, which are gone before a request
        is, nor where tokens attend to an encoder's rows, which are a request's own."""
        return not self.encoded_tokens and not any(group.window for group in self.groups)

    @property
    def free_units(self) -> int:
        return self._pool.free

    @property
    def free_blocks(self) -> int:
        """Count blocks of `block_tokens` tokens of all held layers that have room."""
        return self.free_units // self.block_units

    def blocks_short(self, batch: StepBatch) -> int:
        """Count such blocks that a batch lacks."""
        return -(-self.units_short(batch) // self.block_units)

    @property
    def block_tokens(self) -> int:
        """Tokens of a block."""
        return self.groups[0].block_tokens

    @property
    def block_units(self) -> int:
        """Units of a block of all held layers."""
        return sum(group.units for group in self.groups)

    def table(self, request_id: str) -> BlockTable:
        if request_id not in self._tables:
            raise UnknownRequestError(f"request {request_id!r} holds no KV cache here")
        return self._tables[request_id]

    def tokens(self, request_id: str) -> int:
        """Count the tokens of a request in the cache; 0 for a request not known."""
        table = self._tables.get(request_id)
        return table.tokens if table else 0

    def drafted(self, request_id: str) -> int:
        """Count the tokens behind those, which a draft of its last step wrote."""
        table = self._tables.get(request_id)
        return table.reach - table.tokens if table else 0

    def units_short(self, batch: StepBatch) -> int:
        with self._changing:
            return max(0, self._needed(batch, self._tables_of(batch)) - self._pool.free)

    def grow(self, batch: StepBatch) -> None:
        """Makes room for the tokens of the batch. Raises OutOfKvBlocksError, and BadBatchError for blocks that are to
        be shared and are not there, before anything is taken."""
        with self._changing:
            tables = self._tables_of(batch)
            take = self._taken(self._needed(batch, tables))
            for request, table in zip(batch.requests, tables, strict=True):
                if request.shared:
                    self._pool.share(unit for held in table.blocks for unit in held.units.flatten().tolist())
                self._tables[request.id] = table
                table.grow(request.position + request.tokens, take)
                self._make_room_for_encoded(request.id, take)

    def advance(self, batch: StepBatch) -> None:
        """Count the tokens of a step that is over as cached, but for those of drafts: the next step says which of them
        are right. It may begin before all of them, from where a window reaches further back."""
        with self._changing:
            for request in batch.requests:
                self._tables[request.id].advance(request.known_end, self._pool)

    def reserve(self, request_id: str, tokens: int) -> None:
        """Room for `tokens` tokens that will be imported. Raises OutOfKvBlocksError, taking nothing."""
        table = BlockTable(self.groups)
        table.tokens = tokens
        needed = table.units_to_reach(tokens) + BlockTable(self.groups).units_to_reach(self.encoded_tokens)
        with self._changing:
            take = self._taken(needed)
            table.grow(tokens, take)
            self._tables[request_id] = table
            self._make_room_for_encoded(request_id, take)

    def free(self, request_id: str, kept: Sequence[int] = ()) -> None:
        """Give the request's units back but for those of `kept` blocks, which stay under their names."""
        with self._changing:
            self.attending.discard(request_id)
            table, encoded = self._tables.pop(request_id, None), self._encoded.pop(request_id, None)
            if encoded:
                encoded.release(self._pool)
            if table is None:
                return
            for block in kept:
                units = self._kept[BlockName(request_id, block)] = table.block(block)
                self._pool.share(unit for of_group in units for unit in of_group.tolist())
            table.release(self._pool)

    def drop(self, blocks: Iterable[BlockName]) -> None:
        """Give kept blocks back. Raises BadBatchError for one that is not kept."""
        with self._changing:
            for name in blocks:
                if name not in self._kept:
                    raise BadBatchError(f"block {name} is to be dropped, and is not kept")
                self._pool.give_back(unit for of_group in self._kept.pop(name) for unit in of_group.tolist())

    def encoded_units(self, request_id: str) -> torch.Tensor:
        """(blocks, layers) units of the request's encoded rows."""
        return self._encoded[request_id].blocks[0].units

    def _taken(self, count: int) -> Callable[[int], list[int]]:
        """Take so many units, and return what hands them out. All at once: of a pool that others take from, too, what
        is free now may not be when the next ones are taken. Raises OutOfKvBlocksError, taking nothing."""
        units = iter(self._pool.take(count))
        return lambda some: list(islice(units, some))

    def _needed(self, batch: StepBatch, tables: list[BlockTable]) -> int:
        needed = sum(
            table.units_to_reach(request.position + request.tokens)
            for request, table in zip(batch.requests, tables, strict=True)
        )
        new = sum(request.id not in self._encoded for request in batch.requests)
        return needed + new * BlockTable(self.groups).units_to_reach(self.encoded_tokens)

    def _make_room_for_encoded(self, request_id: str, take: Callable[[int], list[int]]) -> None:
        if self.encoded_tokens and request_id not in self._encoded:
            table = self._encoded[request_id] = BlockTable(self.groups)
            table.grow(self.encoded_tokens, take)

    def _tables_of(self, batch: StepBatch) -> list[BlockTable]:
        """Of each request, in order; those of new ones have nothing but the blocks that they share."""
        return [self._tables.get(request.id) or self._new_table(request) for request in batch.requests]

    def _new_table(self, request: StepRequest) -> BlockTable:
        if not request.shared:
            return BlockTable(self.groups)
        return BlockTable.behind(self.groups, [self._block(name) for name in request.shared])

    def _block(self, name: BlockName) -> list[torch.Tensor]:
        """Units of a block, by group. Raises BadBatchError where it is neither kept nor of a request that is here."""
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        table = self._tables.get(name.request_id)
        if table is None or table.reach < (name.block + 1) * BLOCK_TOKENS:
            raise BadBatchError(f"block {name} is to be shared, and is not here")
        return table.block(name.block)
