"""Attention of a step's queries to the paged KV cache: keys and values are read where they lie, once."""

import torch
import triton
import triton.language as tl

BLOCK_TOKENS = tl.constexpr(16)
"""Of `agents.engines.torch_engine.block_table`; a kernel sees constants of its own module alone."""
_KEYS = 64
"""Read at a time."""
_LEAST_ROWS = 16
"""Of a product on tensor cores."""
_MOST_SPLITS = 16
_INTERPRETED_PROGRAMS = 16
"""Of Triton's interpreter, which has no processors: so few that splits occur."""


@triton.jit
def _attend(
    queries,
    keys,
    values,
    units,
    first_block,
    tiles,
    sinks,
    out,
    partial,
    partial_sums,
    scale,
    query_stride,
    unit_stride,
    token_stride,
    units_stride,
    WINDOW: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    SPLITS: tl.constexpr,
    HAS_SINKS: tl.constexpr,
):
    """One tile of a request's queries, for the query heads of one KV head, over one of SPLITS parts of its keys.

    Online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): the running maximum and sum of each row are kept
    beside the weighted values."""
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    request = tl.load(tiles + tile * 4)
    first_row = tl.load(tiles + tile * 4 + 1)
    position = tl.load(tiles + tile * 4 + 2)
    count = tl.load(tiles + tile * 4 + 3)
    block = tl.load(first_block + request)

    lane = tl.arange(0, ROWS)
    query = lane // GROUP
    head = kv_head * GROUP + lane % GROUP
    is_row = query < count
    dim = tl.arange(0, HEAD_PADDED)
    is_dim = dim < HEAD
    row = (first_row + query).to(tl.int64)
    places = row * query_stride + head * HEAD
    asked = tl.load(queries + places[:, None] + dim[None, :], mask=is_row[:, None] & is_dim[None, :], other=0.0)
    asked_at = position + query

    start = block * BLOCK_TOKENS
    if WINDOW > 0:
        start = tl.maximum(start, position - WINDOW + 1)
    end = position + count
    each = (end - start + SPLITS - 1) // SPLITS
    each = (each + KEYS - 1) // KEYS * KEYS
    low = start + split * each
    high = tl.minimum(end, low + each)

    most = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, HEAD_PADDED), tl.float32)
    for at in range(low, high, KEYS):
        key = at + tl.arange(0, KEYS)
        is_key = key < high
        unit = tl.load(units + request * units_stride + key // BLOCK_TOKENS - block, mask=is_key, other=0)
        offset = unit.to(tl.int64) * unit_stride + (key % BLOCK_TOKENS) * token_stride + kv_head * HEAD
        place = offset[:, None] + dim[None, :]
        is_held = is_key[:, None] & is_dim[None, :]
        some_keys = tl.load(keys + place, mask=is_held, other=0.0)
        scores = tl.dot(asked, tl.trans(some_keys), input_precision="ieee") * scale
        is_seen = is_key[None, :] & (key[None, :] <= asked_at[:, None])
        if WINDOW > 0:
            is_seen = is_seen & (key[None, :] > asked_at[:, None] - WINDOW)
        scores = tl.where(is_seen, scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)  # nothing is seen yet: exp(-∞ - 0) is 0
        weights = tl.exp(scores - base[:, None])
        kept = tl.exp(most - base)
        some_values = tl.load(values + place, mask=is_held, other=0.0)
        total = total * kept + tl.sum(weights, 1)
        product = tl.dot(weights.to(some_values.dtype), some_values, input_precision="ieee")
        mixed = mixed * kept[:, None] + product
        most = higher

    is_out = is_row[:, None] & is_dim[None, :]
    if SPLITS == 1:
        if HAS_SINKS:
            sink = tl.load(sinks + head).to(tl.float32)
            higher = tl.maximum(most, sink)
            kept = tl.exp(most - higher)
            total = total * kept + tl.exp(sink - higher)
            mixed = mixed * kept[:, None]
        mixed = mixed / total[:, None]
        out_place = row * query_stride + head * HEAD
        tl.store(out + out_place[:, None] + dim[None, :], mixed.to(out.dtype.element_ty), mask=is_out)
    else:
        heads = tl.num_programs(1) * GROUP
        part = (row * heads + head) * SPLITS + split
        tl.store(partial + part[:, None] * HEAD + dim[None, :], mixed, mask=is_out)
        tl.store(partial_sums + part * 2, most, mask=is_row)
        tl.store(partial_sums + part * 2 + 1, total, mask=is_row)


@triton.jit
def _combine(
    partial,
    partial_sums,
    sinks,
    out,
    heads,
    query_stride,
    HEAD: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    SPLITS: tl.constexpr,
    HAS_SINKS: tl.constexpr,
):
    """The parts of one row and head, as one."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    split = tl.arange(0, SPLITS)
    dim = tl.arange(0, HEAD_PADDED)
    part = (row * heads + head) * SPLITS + split
    most = tl.load(partial_sums + part * 2)
    total = tl.load(partial_sums + part * 2 + 1)
    highest = tl.max(most, 0)
    if HAS_SINKS:
        sink = tl.load(sinks + head).to(tl.float32)
        highest = tl.maximum(highest, sink)
    kept = tl.exp(most - highest)
    whole = tl.sum(total * kept, 0)
    if HAS_SINKS:
        whole += tl.exp(sink - highest)
    is_dim = dim < HEAD
    mixed = tl.load(partial + part[:, None] * HEAD + dim[None, :], mask=is_dim[None, :], other=0.0)
    mixed = tl.sum(mixed * kept[:, None], 0) / whole
    tl.store(out + row * query_stride + head * HEAD + dim, mixed.to(out.dtype.element_ty), mask=is_dim)


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    units: torch.Tensor,
    first_block: torch.Tensor,
    tiles: torch.Tensor,
    tile_queries: int,
    window: int,
    sinks: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    """Writes rows of `out`, shaped as `queries` (rows, heads, head_dim), both contiguous.

    `keys`, `values`: the cache, (units, 16, KV heads, head_dim). `units`: (requests, blocks) int32 of one layer; the
    first is a request's block `first_block` (requests,). `tiles`: (tiles, 4) int32, consecutive queries of one request
    each: request, its first row, the position of that, and how many; at most `tile_queries`. Queries see keys up to
    their own position, of the last `window` where it is not 0. `sinks`: (heads,) logits without a value."""
    rows, heads, head_dim = queries.shape
    kv_heads = keys.shape[2]
    group = heads // kv_heads
    splits = _splits(len(tiles) * kv_heads, queries.device) if tile_queries == 1 else 1
    if splits > 1:
        partial = torch.empty(rows, heads, splits, head_dim, dtype=torch.float32, device=queries.device)
        partial_sums = torch.empty(rows, heads, splits, 2, dtype=torch.float32, device=queries.device)
    else:
        partial = partial_sums = out  # not used
    padded = max(triton.next_power_of_2(head_dim), _LEAST_ROWS)
    grid = (len(tiles), kv_heads, splits)
    _attend[grid](
        queries,
        keys,
        values,
        units,
        first_block,
        tiles,
        queries if sinks is None else sinks,
        out,
        partial,
        partial_sums,
        head_dim**-0.5,
        queries.stride(0),
        keys.stride(0),
        keys.stride(1),
        units.stride(0),
        WINDOW=window,
        GROUP=group,
        HEAD=head_dim,
        HEAD_PADDED=padded,
        ROWS=max(triton.next_power_of_2(tile_queries * group), _LEAST_ROWS),
        KEYS=_KEYS,
        SPLITS=splits,
        HAS_SINKS=sinks is not None,
        num_stages=4,
    )
    if splits > 1:
        _combine[(rows, heads)](
            partial,
            partial_sums,
            queries if sinks is None else sinks,
            out,
            heads,
            out.stride(0),
            HEAD=head_dim,
            HEAD_PADDED=padded,
            SPLITS=splits,
            HAS_SINKS=sinks is not None,
        )


def _splits(programs: int, device: torch.device) -> int:
    """Return into how many parts keys are cut, so that few requests keep all processors busy: a power of two."""
    wanted = _INTERPRETED_PROGRAMS
    if device.type == "cuda":
        wanted = 2 * torch.cuda.get_device_properties(device).multi_processor_count
    return min(_MOST_SPLITS, int(triton.next_power_of_2(max(1, wanted // programs))))
