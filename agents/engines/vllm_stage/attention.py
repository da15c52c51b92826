"""vLLM's attention layers of one stage: their KV cache, and what they are told of a step."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from vllm.v1.attention.backend import CommonAttentionMetadata

from agents.engines.batch import StepBatch
from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts
from agents.engines.vllm_stage.kv_places import KvPlaces
from agents.engines.vllm_stage.stage_model import VllmStageModel


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    positions: torch.Tensor
    """(tokens,)"""
    metadata: dict[str, Any]
    slot_mapping: dict[str, torch.Tensor]
    """By layer: (tokens,) the place of each token in the cache, in tokens."""


class StageAttention:
    def __init__(self, stage: VllmStageModel, facts: StageFacts, windows: tuple[int, ...]) -> None:
        self._facts = facts
        self._layers = list(stage.attention.values())
        self._names = list(stage.attention)
        shape = (facts.kv_blocks, facts.kv_heads, facts.block_tokens, 2 * facts.head_dim)
        for layer in self._layers:
            layer.kv_cache = torch.zeros(shape, dtype=facts.dtype)
        self._builders = [(names, _builder(stage, names, facts)) for names in _by_window(self._names, windows).values()]
        self._places = KvPlaces(self._layers[0], facts.block_tokens, facts.kv_heads, facts.head_dim, facts.dtype)

    def inputs(self, batch: StepBatch, tables: list[torch.Tensor]) -> AttentionInputs:
        """`tables`: of each request, its blocks in order."""
        block_tokens = self._facts.block_tokens
        counts = [request.tokens for request in batch.requests]
        ends = [request.position + request.tokens for request in batch.requests]
        starts = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
        positions = [torch.arange(end - count, end) for end, count in zip(ends, counts, strict=True)]
        slots = torch.cat(
            [
                table[at // block_tokens] * block_tokens + at % block_tokens
                for table, at in zip(tables, positions, strict=True)
            ]
        )
        common = CommonAttentionMetadata(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=torch.tensor(ends, dtype=torch.int32),
            num_reqs=len(ends),
            num_actual_tokens=batch.tokens,
            max_query_len=max(counts),
            max_seq_len=max(ends),
            block_table_tensor=torch.nn.utils.rnn.pad_sequence(tables, batch_first=True).to(torch.int32),
            slot_mapping=slots,
        )
        metadata: dict[str, Any] = {}
        for names, builder in self._builders:
            metadata |= dict.fromkeys(names, builder.build(0, common))
        return AttentionInputs(torch.cat(positions), metadata, dict.fromkeys(self._names, slots))

    def read(self, layer: int, blocks: torch.Tensor, part: KvPart) -> torch.Tensor:
        """(2, tokens, heads, head_dim) of one layer. `blocks`: of each token."""
        return self._flat(layer)[self._places_of(blocks, part)]

    def write(self, layer: int, blocks: torch.Tensor, part: KvPart, tensor: torch.Tensor) -> None:
        self._flat(layer)[self._places_of(blocks, part)] = tensor

    def close(self) -> None:
        for layer in self._layers:
            layer.kv_cache = torch.empty(0)

    def _flat(self, layer: int) -> torch.Tensor:
        cache: torch.Tensor = self._layers[layer - self._facts.held.first_layer].kv_cache
        return cache.view(-1)

    def _places_of(self, blocks: torch.Tensor, part: KvPart) -> torch.Tensor:
        return self._places.of(blocks, part.first_token, slice(part.first_head, part.first_head + part.heads))


def _by_window(names: list[str], windows: tuple[int, ...]) -> dict[int, list[str]]:
    """Layers that share what they are told of a step."""
    groups: dict[int, list[str]] = {}
    for name, window in zip(names, windows, strict=True):
        groups.setdefault(window, []).append(name)
    return groups


def _builder(stage: VllmStageModel, names: list[str], facts: StageFacts) -> Any:
    first = stage.attention[names[0]]
    spec = replace(first.get_kv_cache_spec(stage.config), block_size=facts.block_tokens)  # windows would have their own
    return first.attn_backend.get_builder_cls()(spec, names, stage.config, facts.device)
