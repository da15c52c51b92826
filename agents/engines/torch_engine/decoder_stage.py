"""Consecutive layers of a decoder with the ends they hold."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.given_rows import EncodedRows
from agents.engines.grid_positions import grid_positions
from agents.engines.torch_engine.attention import StepPositions
from agents.engines.torch_engine.attention_plan import attention_plans, decode_plan
from agents.engines.torch_engine.decoder_layer import DecoderLayer
from agents.engines.torch_engine.encoder_attention import encoded_plan, encoded_slots
from agents.engines.torch_engine.expert_exchange import ExpertExchange
from agents.engines.torch_engine.experts import Experts
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.kv_tables import KvTables
from agents.engines.torch_engine.rope import Rope
from agents.engines.torch_engine.vocabulary import Embedding, LanguageHead
from templates_lib.cost.row_padding import MOST_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class DecoderStage:
    embedding: Embedding | None
    """On the first stage."""
    layers: tuple[DecoderLayer, ...]
    head: LanguageHead | None
    """On the last stage."""
    rope: Rope
    dtype: torch.dtype
    exchange: ExpertExchange | None
    """With replicas that hold experts of these layers."""
    learned_positions: torch.Tensor | None = None
    """(tokens, hidden): added to the embeddings, on the first stage of a model that has them."""

    def forward(
        self, batch: StepBatch, rows: torch.Tensor, cache: KvCache, wrote: Callable[[int], None]
    ) -> torch.Tensor:
        """Token ids (tokens,) or hidden states (tokens, hidden) → hidden states behind the last held layer. `wrote`:
        called when so many layers have written their keys and values."""
        if self.embedding is not None:
            rows = self._embedded(batch, rows)
        for encoded in batch.given.encoded:
            self._keep(encoded, cache)
        if self.exchange is not None:
            self.exchange.begin(len(rows))
        # Who shares experts takes part in the layers of a whole step, of which others do not know how it is cut.
        is_whole = self.exchange is not None or rows.device.type != "cpu"
        tiles = (batch,) if is_whole else tuple(row_tiles(batch))
        plans = [attention_plans(cache, tile, self.heads_per_kv_head) for tile in tiles]
        to_encoded = [encoded_plan(cache, tile) if cache.encoded_tokens else None for tile in tiles]
        positions = [self._positions(tile, rows.device) for tile in tiles]
        parts = list(torch.split(rows, [tile.tokens for tile in tiles]))
        for i, layer in enumerate(self.layers):
            group, place = cache.place_of[i]
            for t, part in enumerate(parts):
                parts[t] = layer(part, positions[t], cache, plans[t][group], place, to_encoded[t])
            wrote(i + 1)
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def decode(
        self, rows: torch.Tensor, at: torch.Tensor, turned: torch.Tensor, tables: Sequence[KvTables], cache: KvCache
    ) -> torch.Tensor:
        """One token of each request, of which all is on the device: token ids or hidden states as `forward` takes them,
        positions `at` (requests,), those that queries and keys are turned by, which lie otherwise behind images, and
        where KV cache lies, for each window group → logits (requests, vocabulary) on the last stage, else hidden
        states. The device waits for nothing, so all of it can be captured as a graph."""
        if self.embedding is not None:
            rows = self.embedding(rows)
        if self.exchange is not None:
            self.exchange.begin(len(rows))
        positions = self._rotations(turned)
        windows = (group.window for group in cache.groups)
        plans = [
            decode_plan(each, at, window, self.heads_per_kv_head, cache.keys)
            for each, window in zip(tables, windows, strict=True)
        ]
        for i, layer in enumerate(self.layers):
            group, place = cache.place_of[i]
            rows = layer(rows, positions, cache, plans[group], place)
        return rows if self.head is None else self.head(rows)

    @property
    def heads_per_kv_head(self) -> int:
        attention = self.layers[0].attention
        return attention.heads // attention.kv_heads

    @property
    def waits(self) -> bool:
        """Tell whether a step needs the processor amid its layers: to see what routers chose, or how many rows others
        have."""
        experts = [layer.feed_forward for layer in self.layers if isinstance(layer.feed_forward, Experts)]
        return self.exchange is not None or any(each.waits_for_router for each in experts)

    def assist(self, nothing: torch.Tensor) -> None:
        """Compute the held experts for a step of other replicas. `nothing`: (0, hidden)."""
        if self.exchange is not None:
            self.exchange.begin(0)
            for layer in self.layers:
                layer.forward_feed(nothing)

    def _positions(self, batch: StepBatch, device: torch.device) -> StepPositions:
        return self._rotations(_turned_by(batch).to(device))

    def _embedded(self, batch: StepBatch, token_ids: torch.Tensor) -> torch.Tensor:
        """(tokens,) → (tokens, hidden), with the rows that are given in their places."""
        if self.embedding is None:
            raise ValueError("a stage that is not the first embeds no tokens")
        rows = self.embedding(token_ids)
        if batch.given.embedded:
            rows = rows.clone()
            starts, first = {}, 0
            for request in batch.requests:
                starts[request.id] = first - request.position
                first += request.tokens
            for given in batch.given.embedded:
                at = starts[given.request_id] + given.position
                rows[at : at + len(given.rows)] = given.rows.to(rows)
        if self.learned_positions is not None:
            rows = rows + self.learned_positions[_places(batch).to(rows.device)]
        return rows

    def _keep(self, encoded: EncodedRows, cache: KvCache) -> None:
        """Keys and values of an encoder's rows into the cache, for every held layer."""
        rows = encoded.rows.to(cache.keys)
        for i, layer in enumerate(self.layers):
            if layer.encoder_attention is not None:
                slots = encoded_slots(cache, encoded.request_id, cache.place_of[i][1])
                layer.encoder_attention.keep(rows, cache, slots)
        cache.attending.add(encoded.request_id)

    def _rotations(self, at: torch.Tensor) -> StepPositions:
        cosine, sine = self.rope.tables(at)
        return StepPositions(cosine.to(self.dtype), sine.to(self.dtype))


def _places(batch: StepBatch) -> torch.Tensor:
    """(tokens,) places of the step's tokens in their requests."""
    return torch.cat([torch.arange(r.position, r.position + r.tokens) for r in batch.requests])


def _turned_by(batch: StepBatch) -> torch.Tensor:
    """(tokens,) positions that queries and keys are turned by, or (tokens, 3) where a request has images."""
    if not any(request.grids for request in batch.requests):
        return _places(batch)
    every = [grid_positions(request.grids, request.position, request.tokens) for request in batch.requests]
    return torch.from_numpy(np.concatenate(every))


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
            tile.append(StepRequest(request.id, request.position + done, taken, grids=request.grids))
            done, room = done + taken, room - taken
            if not room:
                yield StepBatch(tuple(tile))
                tile, room = [], MOST_ROWS
    if tile:
        yield StepBatch(tuple(tile))
