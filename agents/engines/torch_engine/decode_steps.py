"""Steps with one token of each request, in shapes that come again."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from agents.engines.batch import StepBatch
from agents.engines.grid_positions import text_position
from agents.engines.torch_engine.block_table import GroupBlocks
from agents.engines.torch_engine.decoder_stage import DecoderStage
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.kv_tables import KvTables
from agents.engines.torch_engine.replay import Recorder, Replay

MOST_SHAPES = 64
"""Kept at once; the one that was not used for longest goes first."""
_LEAST_BLOCKS = 4


def has_decode_steps(device: torch.device) -> bool:
    """Tell whether such steps are worth it there. On a CPU nothing is gained, and rows that are added cost."""
    return device.type == "cuda"


@dataclass(frozen=True, slots=True)
class DecodeShape:
    rows: int
    blocks: tuple[int, ...]
    """Of the longest request, for each window group."""


def shape_of(requests: int, blocks: Sequence[int]) -> DecodeShape:
    """Return the least shape that has room: few occur. Rows that are added cost a product next to nothing, but attend
    like others, so they are fewer than 8; of blocks, what is not used is not read."""
    rows = 1 << (requests - 1).bit_length() if requests <= 8 else -(-requests // 8) * 8
    return DecodeShape(rows, tuple(max(_LEAST_BLOCKS, 1 << (most - 1).bit_length()) for most in blocks))


class GroupTables:
    """Tables of one window group: a copy on the device of what the processor keeps up to date. Few change in a step:
    a request has a new block each sixteen tokens."""

    def __init__(self, layers: int, rows: int, blocks: int, device: torch.device) -> None:
        self._units = torch.zeros(layers, rows, blocks, dtype=torch.int32)
        self._first_block = torch.zeros(rows, dtype=torch.int32)
        self._written: list[torch.Tensor | None] = [None] * rows
        """Units of the request whose row it is, as last written; a table that changes is another tensor."""
        self.on_device = KvTables(self._units.to(device, copy=True), self._first_block.to(device, copy=True))

    def write(self, held: Sequence[GroupBlocks]) -> None:
        """`held`: of the request of each row."""
        is_changed = False
        for row, blocks in enumerate(held):
            if blocks.units is not self._written[row]:
                self._units[:, row, : len(blocks.units)] = blocks.units.T
                self._first_block[row] = blocks.first_block
                self._written[row] = blocks.units
                is_changed = True
        if is_changed:
            self.on_device.units.copy_(self._units)
            self.on_device.first_block.copy_(self._first_block)


class _Shaped:
    """Tensors of one shape, and the work that reads them."""

    def __init__(self, shape: DecodeShape, stage: DecoderStage, cache: KvCache, like: torch.Tensor, recorder: Recorder):
        device = like.device
        self.rows = like.new_zeros(shape.rows, *like.shape[1:])
        self.positions = torch.zeros(shape.rows, dtype=torch.int64, device=device)
        self.turned = torch.zeros(shape.rows, dtype=torch.int64, device=device)
        """Positions that queries and keys are turned by: others than their places in texts with images."""
        groups = zip(cache.groups, shape.blocks, strict=True)
        self.groups = [GroupTables(len(group.layers), shape.rows, most, device) for group, most in groups]
        tables = [group.on_device for group in self.groups]
        self.replay = Replay(recorder, partial(stage.decode, self.rows, self.positions, self.turned, tables, cache))


class DecodeSteps:
    """Runs them. Rows that a shape has too many repeat the first request: they write what it writes, to the same
    places."""

    def __init__(self, stage: DecoderStage, cache: KvCache, recorder: Recorder) -> None:
        self._stage = stage
        self._cache = cache
        self._recorder = recorder
        self._shapes: OrderedDict[DecodeShape, _Shaped] = OrderedDict()

    def run(self, batch: StepBatch, rows: torch.Tensor) -> torch.Tensor:
        """What `DecoderStage.decode` returns for a batch of single tokens, for which the cache has room: memory that a
        later step writes to. `rows`: of the step, on the device; its tokens are of text."""
        requests = batch.requests
        tables = [self._cache.table(request.id).blocks for request in requests]
        groups = range(len(self._cache.groups))
        most = [max(len(blocks[group].units) for blocks in tables) for group in groups]
        shape = shape_of(len(requests), most)
        shaped = self._shaped(shape, rows)
        added = shape.rows - len(requests)
        positions = [request.position for request in requests]
        shaped.positions.copy_(torch.tensor(positions + positions[:1] * added))
        turned = [text_position(request.grids, request.position) or 0 for request in requests]
        shaped.turned.copy_(torch.tensor(turned + turned[:1] * added))
        shaped.rows[: len(requests)] = rows
        if added:
            shaped.rows[len(requests) :] = rows[:1]
        for group, written in zip(groups, shaped.groups, strict=True):
            held = [blocks[group] for blocks in tables]
            written.write(held + held[:1] * added)
        return shaped.replay()[: len(requests)]

    def _shaped(self, shape: DecodeShape, rows: torch.Tensor) -> _Shaped:
        found = self._shapes.get(shape)
        if found is None:
            while len(self._shapes) >= MOST_SHAPES:
                self._shapes.popitem(last=False)
            found = _Shaped(shape, self._stage, self._cache, rows, self._recorder)
            self._shapes[shape] = found
        self._shapes.move_to_end(shape)
        return found
