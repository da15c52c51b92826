"""Copies parts of a request's KV cache out of an engine and into it."""

import torch

from agents.engines import checks
from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts
from agents.engines.torch_engine.kv_cache import KvCache

_WIDE = torch.complex128
"""Nothing has more bytes; they are only moved."""


def export_part(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart) -> torch.Tensor:
    """(2, layers, tokens, heads, head_dim) on the CPU. Raises BadBatchError for what is not held or not kept."""
    check_part(cache, facts, request_id, part)
    heads = slice(part.first_head - facts.first_kv_head, part.first_head - facts.first_kv_head + part.heads)
    shape = (2, part.layers, part.tokens, part.heads, cache.keys.shape[-1])
    copied = torch.empty(shape, dtype=cache.keys.dtype, device=cache.keys.device)
    for i in range(part.layers):
        slots = cache.slots(request_id, part.first_layer - facts.held.first_layer + i, part.first_token, part.tokens)
        torch.index_select(cache.flat_keys[:, heads], 0, slots, out=copied[0, i])
        torch.index_select(cache.flat_values[:, heads], 0, slots, out=copied[1, i])
    return copied.cpu()


def import_part(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
    """Writes what `export_part` returned, there or elsewhere, into room that was reserved."""
    check_part(cache, facts, request_id, part)
    checks.check_part_shape(part, tensor, cache.keys.shape[-1])
    tensor = tensor.to(device=cache.keys.device, dtype=cache.keys.dtype)
    heads = slice(part.first_head - facts.first_kv_head, part.first_head - facts.first_kv_head + part.heads)
    for i in range(part.layers):
        layer = part.first_layer - facts.held.first_layer + i
        slots = cache.slots(request_id, layer, part.first_token, part.tokens)
        _put(cache.flat_keys[:, heads], slots, tensor[0, i])
        _put(cache.flat_values[:, heads], slots, tensor[1, i])


def _put(rows: torch.Tensor, slots: torch.Tensor, values: torch.Tensor) -> None:
    """rows[slots] = values: element by element, so of the widest kind that fits whole rows, which halves the time."""
    if rows.is_contiguous() and values.is_contiguous() and rows[0].nbytes % _WIDE.itemsize == 0:
        rows, values = rows.flatten(1).view(_WIDE), values.flatten(1).view(_WIDE)
    rows.index_copy_(0, slots, values)


def check_part(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart) -> None:
    """Raises BadBatchError where the part is not all held and kept here, UnknownRequestError for the request."""

    def first_kept_token(layer: int, tokens: int) -> int:
        return cache.groups[cache.place_of[layer - facts.held.first_layer][0]].first_kept_token(tokens)

    checks.check_part(facts, part, request_id, cache.table(request_id).tokens, first_kept_token)
