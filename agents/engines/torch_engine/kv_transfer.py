"""Copies parts of a request's KV cache out of an engine and into it: whole blocks at once, wherever a part has them.
Or says where they lie."""

from collections.abc import Iterator
from itertools import pairwise

import torch

from agents.engines import checks
from agents.engines.errors import BadBatchError
from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.headwise_cache import HeadwiseCache
from agents.engines.torch_engine.kv_cache import KvCache


def export_part(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart, out: torch.Tensor) -> None:
    """Copy a part into `out`, (2, layers, tokens, heads, head_dim) on the CPU. Raises BadBatchError for what is not
    held or kept, and for another shape."""
    check_part(cache, facts, request_id, part)
    checks.check_part_shape(part, out, cache.keys.shape[-1])
    copied = out if cache.keys.device == out.device else torch.empty_like(out, device=cache.keys.device)
    for memory, places, rows in _pieces(cache, facts, request_id, part, copied):
        torch.index_select(memory, 0, places, out=rows)
    if copied is not out:
        out.copy_(copied)


def import_part(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
    """Writes what `export_part` returned, there or elsewhere, into room that was reserved."""
    check_part(cache, facts, request_id, part)
    checks.check_part_shape(part, tensor, cache.keys.shape[-1])
    tensor = tensor.to(device=cache.keys.device, dtype=cache.keys.dtype)
    for memory, places, rows in _pieces(cache, facts, request_id, part, tensor):
        _put(memory, places, rows)


def lent_part(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart) -> list[memoryview]:
    """Return the memory in which a part lies, in the order of `export_part`. Raises BadBatchError for what is not held
    or kept, and for some heads of those that are held."""
    check_part(cache, facts, request_id, part)
    if part.heads != facts.kv_heads:
        raise BadBatchError(f"heads of a token lie side by side: {part} has {part.heads} of {facts.kv_heads}")
    spans = _byte_spans(cache, facts, request_id, part)
    return [side[start:end] for side in cache.memory for start, end in spans]


def _byte_spans(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart) -> list[tuple[int, int]]:
    """(start, end) in the memory of keys, and of values, layer by layer; neighbours are one."""
    token_bytes = part.heads * cache.keys.shape[-1] * cache.keys.itemsize
    block_bytes = BLOCK_TOKENS * token_bytes
    end_token = part.first_token + part.tokens
    first_block, end_block = part.first_token // BLOCK_TOKENS, -(-end_token // BLOCK_TOKENS)
    starts: list[int] = []
    ends: list[int] = []
    for i in range(part.layers):
        layer = part.first_layer - facts.held.first_layer + i
        units = cache.units(request_id, layer, first_block, end_block - first_block).tolist()
        of_layer = [unit * block_bytes for unit in units]
        ends += [start + block_bytes for start in of_layer]
        ends[-1] -= (end_block * BLOCK_TOKENS - end_token) * token_bytes
        of_layer[0] += (part.first_token - first_block * BLOCK_TOKENS) * token_bytes
        starts += of_layer
    firsts = [0, *(n for n in range(1, len(starts)) if starts[n] != ends[n - 1])]
    return [(starts[first], ends[end - 1]) for first, end in pairwise((*firsts, len(starts)))]


def _pieces(
    cache: KvCache, facts: StageFacts, request_id: str, part: KvPart, tensor: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Yield what goes where: memory of the cache, places in its first dimension, and the tensor's rows for them. Whole
    blocks are rows of their own; they are copied in half the time that their tokens would take one by one."""
    heads = slice(part.first_head - facts.first_kv_head, part.first_head - facts.first_kv_head + part.heads)
    if isinstance(cache, HeadwiseCache):
        for i in range(part.layers):
            layer = part.first_layer - facts.held.first_layer + i
            places = cache.slots(request_id, layer, part.first_token, part.tokens)
            for side in (0, 1):
                for number, head in enumerate(range(heads.start, heads.stop)):
                    yield cache.flat_keys, places[side, head], tensor[side, i, :, number]
        return
    blocks = cache.keys[:, :, heads], cache.values[:, :, heads]
    tokens = cache.flat_keys[:, heads], cache.flat_values[:, heads]
    for i in range(part.layers):
        layer = part.first_layer - facts.held.first_layer + i
        for first, count in _spans(part.first_token, part.tokens):
            start = first - part.first_token
            rows = tensor[:, i, start : start + count]
            if first % BLOCK_TOKENS or count % BLOCK_TOKENS:
                memory, places = tokens, cache.slots(request_id, layer, first, count)
            else:
                memory, rows = blocks, rows.view(2, -1, BLOCK_TOKENS, *rows.shape[2:])
                places = cache.units(request_id, layer, first // BLOCK_TOKENS, count // BLOCK_TOKENS)
            for side in (0, 1):
                yield memory[side], places, rows[side]


def _spans(first: int, tokens: int) -> list[tuple[int, int]]:
    """(first token, tokens): the end of a block, whole blocks, and the beginning of one, as far as there are such."""
    end = first + tokens
    whole = -(-first // BLOCK_TOKENS) * BLOCK_TOKENS, end // BLOCK_TOKENS * BLOCK_TOKENS
    cuts = (first, *whole, end) if whole[0] < whole[1] else (first, end)
    return [(a, b - a) for a, b in pairwise(cuts) if a < b]


def _put(memory: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> None:
    """Set memory[places] to rows. torch goes element by element, numpy row by row, which takes half the time."""
    if memory.is_cpu and memory.is_contiguous() and rows.is_contiguous():
        memory.flatten(1).view(torch.uint8).numpy()[places.numpy()] = rows.flatten(1).view(torch.uint8).numpy()
    else:
        memory.index_copy_(0, places, rows)


def check_part(cache: KvCache, facts: StageFacts, request_id: str, part: KvPart) -> None:
    """Raises BadBatchError where the part is not all held and kept here, or about to be computed;
    UnknownRequestError for the request."""
    table = cache.table(request_id)

    def first_kept_token(layer: int, _reach: int) -> int:
        return cache.groups[cache.place_of[layer - facts.held.first_layer][0]].first_kept_token(table.tokens)

    checks.check_part(facts, part, request_id, table.reach, first_kept_token)
