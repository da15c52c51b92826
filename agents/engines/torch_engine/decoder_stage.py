"""Consecutive layers of a decoder with the ends they hold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.torch_engine.attention import StepPositions
from agents.engines.torch_engine.attention_plan import attention_plans
from agents.engines.torch_engine.decoder_layer import DecoderLayer
from agents.engines.torch_engine.expert_exchange import ExpertExchange
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.norm import RmsNorm
from agents.engines.torch_engine.rope import Rope
from templates_lib.cost.row_padding import MOST_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class LanguageHead:
    """Norm and projection to logits that follow the model's last layer."""

    norm: RmsNorm
    projection: Linear

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Hidden states (n, hidden) → fp32 logits (n, vocabulary)."""
        return self.projection(self.norm(rows)).to(torch.float32)


@dataclass(frozen=True, slots=True, eq=False)
class DecoderStage:
    embedding: torch.Tensor | None
    """(vocabulary, hidden), on the first stage."""
    layers: tuple[DecoderLayer, ...]
    head: LanguageHead | None
    """On the last stage."""
    rope: Rope
    dtype: torch.dtype
    exchange: ExpertExchange | None
    """With replicas that hold experts of these layers."""

    def forward(
        self, batch: StepBatch, rows: torch.Tensor, cache: KvCache, wrote: Callable[[int], None]
    ) -> torch.Tensor:
        """Token ids (tokens,) or hidden states (tokens, hidden) → hidden states behind the last held layer. `wrote`:
        called when so many layers have written their keys and values."""
        if self.embedding is not None:
            rows = self.embedding[rows]
        if self.exchange is not None:
            self.exchange.begin(len(rows))
        # Who shares experts takes part in the layers of a whole step, of which others do not know how it is cut.
        is_whole = self.exchange is not None or rows.device.type != "cpu"
        tiles = (batch,) if is_whole else tuple(row_tiles(batch))
        attention = self.layers[0].attention
        plans = [attention_plans(cache, tile, attention.heads // attention.kv_heads) for tile in tiles]
        positions = [self._positions(tile, rows.device) for tile in tiles]
        parts = list(torch.split(rows, [tile.tokens for tile in tiles]))
        for i, layer in enumerate(self.layers):
            group, place = cache.place_of[i]
            for t, part in enumerate(parts):
                parts[t] = layer(part, positions[t], cache, plans[t][group], place)
            wrote(i + 1)
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def assist(self, nothing: torch.Tensor) -> None:
        """Compute the held experts for a step of other replicas. `nothing`: (0, hidden)."""
        if self.exchange is not None:
            self.exchange.begin(0)
            for layer in self.layers:
                layer.forward_feed(nothing)

    def _positions(self, batch: StepBatch, device: torch.device) -> StepPositions:
        at = torch.cat([torch.arange(r.position, r.position + r.tokens) for r in batch.requests]).to(device)
        cosine, sine = self.rope.tables(at)
        return StepPositions(cosine.to(self.dtype), sine.to(self.dtype))


def row_tiles(batch: StepBatch) -> Iterator[StepBatch]:
    """Cut a wide step into tiles of MOST_ROWS rows, the last one with what is left: as many as one product takes. On a
    CPU, what a layer makes of a tile stays in its caches; of thousands of rows it goes through memory again and again.

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
