"""A wide step cut into tiles of rows, which go through a layer one after the other.

On a CPU, what a layer makes of a tile stays in its caches; of thousands of rows it goes through memory again and again.
"""

from collections.abc import Iterator

from agents.engines.batch import StepBatch, StepRequest
from templates_lib.cost.row_padding import MOST_ROWS


def row_tiles(batch: StepBatch) -> Iterator[StepBatch]:
    """The rows of the batch in their order, MOST_ROWS in each tile but the last: as many as one product takes.

    A request that goes on in the next tile has its earlier rows in the layer's KV cache by then."""
    tile: list[StepRequest] = []
    room = MOST_ROWS
    for request in batch.requests:
        done = 0
        while done < request.tokens:
            taken = min(room, request.tokens - done)
            tile.append(StepRequest(request.id, request.position + done, taken))
            done, room = done + taken, room - taken
            if not room:
                yield StepBatch(tuple(tile))
                tile, room = [], MOST_ROWS
    if tile:
        yield StepBatch(tuple(tile))
