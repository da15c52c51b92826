"""What a layer does to rows between its products, each as one operation: many are many launches."""

import torch
import triton
import triton.language as tl


@triton.jit
def _normalise(rows, weight, out, row_stride, epsilon, size, SIZE: tl.constexpr, LATE_CAST: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, SIZE)
    is_held = at < size
    stored = tl.load(rows + row * row_stride + at, mask=is_held, other=0.0)
    wide = stored.to(tl.float32)
    wide = wide * tl.rsqrt(tl.sum(wide * wide, 0) / size + epsilon)
    factor = tl.load(weight + at, mask=is_held, other=0.0)
    if not LATE_CAST:
        wide = wide.to(stored.dtype).to(tl.float32)
    made = factor.to(tl.float32) * wide
    tl.store(out + row * size + at, made.to(stored.dtype), mask=is_held)


def normalise(rows: torch.Tensor, weight: torch.Tensor, epsilon: float, late_cast: bool) -> torch.Tensor:
    """Return (n, size) rows as `normalised` does."""
    count, size = rows.shape
    out = rows.new_empty(count, size)
    if count:
        _normalise[(count,)](
            rows,
            weight,
            out,
            rows.stride(0),
            epsilon,
            size,
            SIZE=triton.next_power_of_2(size),
            LATE_CAST=late_cast,
        )
    return out


@triton.jit
def _gate(gate, up, out, gate_stride, up_stride, size, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    is_held = at < size
    stored = tl.load(gate + row * gate_stride + at, mask=is_held, other=0.0)
    wide = stored.to(tl.float32)
    opened = (wide / (1.0 + tl.exp(-wide))).to(stored.dtype)
    made = opened.to(tl.float32) * tl.load(up + row * up_stride + at, mask=is_held, other=0.0).to(tl.float32)
    tl.store(out + row * size + at, made.to(stored.dtype), mask=is_held)


def gated(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) × up, all (n, size); columns of gate and of up lie beside each other."""
    count, size = gate.shape
    out = gate.new_empty(count, size)
    if count:
        tile = min(1024, triton.next_power_of_2(size))
        _gate[(count, triton.cdiv(size, tile))](gate, up, out, gate.stride(0), up.stride(0), size, SIZE=tile)
    return out


@triton.jit
def _rotate_and_keep(
    every,
    cosine,
    sine,
    slots,
    query_weight,
    key_weight,
    queries,
    keys,
    values,
    epsilon,
    half,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    HAS_NORMS: tl.constexpr,
):
    """One head of one token: a query's, a key's or a value's."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    dim = tl.arange(0, HEAD_PADDED)
    is_dim = dim < HEAD
    source = every + (token * (HEADS + 2 * KV_HEADS) + head) * HEAD
    stored = tl.load(source + dim, mask=is_dim, other=0.0)
    slot = tl.load(slots + token)
    if head >= HEADS + KV_HEADS:
        place = (slot * KV_HEADS + head - HEADS - KV_HEADS) * HEAD + dim
        tl.store(values + place, stored, mask=is_dim)
    else:
        is_turned = dim < 2 * half
        # Dimension i turns with i + half, and that with it.
        partner = tl.where(dim < half, dim + half, tl.where(is_turned, dim - half, dim))
        own = stored.to(tl.float32)
        other = tl.load(source + partner, mask=is_dim, other=0.0).to(tl.float32)
        if HAS_NORMS:
            scale = tl.rsqrt(tl.sum(own * own, 0) / HEAD + epsilon)
            weight = key_weight
            if head < HEADS:
                weight = query_weight
            own_weight = tl.load(weight + dim, mask=is_dim, other=0.0).to(tl.float32)
            other_weight = tl.load(weight + partner, mask=is_dim, other=0.0).to(tl.float32)
            own = own * scale * own_weight
            other = other * scale * other_weight
        angle = token * half + tl.where(dim < half, dim, dim - half)
        turn = tl.load(cosine + angle, mask=is_turned, other=1.0).to(tl.float32)
        slant = tl.load(sine + angle, mask=is_turned, other=0.0).to(tl.float32)
        made = own * turn + tl.where(dim < half, -other, other) * slant
        made = made.to(stored.dtype)
        if head < HEADS:
            tl.store(queries + (token * HEADS + head) * HEAD + dim, made, mask=is_dim)
        else:
            tl.store(keys + (slot * KV_HEADS + head - HEADS) * HEAD + dim, made, mask=is_dim)


def rotate_and_keep(
    every: torch.Tensor,
    heads: int,
    cosine: torch.Tensor,
    sine: torch.Tensor,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    query_weight: torch.Tensor | None,
    key_weight: torch.Tensor | None,
    epsilon: float,
) -> torch.Tensor:
    """Return rotated queries (tokens, heads, head_dim), and write rotated keys and values to the cache.

    `every`: (tokens, heads + 2 × KV heads, head_dim), contiguous: queries, keys, values. `cosine`, `sine`: (tokens, 1,
    rotated / 2), contiguous. `slots`: (tokens,) int64 places in `keys` and `values`, the cache's. Where there are
    weights (head_dim,), queries and keys are normalised before, as `normalised` does."""
    tokens, all_heads, head_dim = every.shape
    queries = every.new_empty(tokens, heads, head_dim)
    nothing = every
    _rotate_and_keep[(tokens, all_heads)](
        every,
        cosine,
        sine,
        slots,
        nothing if query_weight is None else query_weight,
        nothing if key_weight is None else key_weight,
        queries,
        keys,
        values,
        epsilon,
        cosine.shape[-1],
        HEADS=heads,
        KV_HEADS=(all_heads - heads) // 2,
        HEAD=head_dim,
        HEAD_PADDED=triton.next_power_of_2(head_dim),
        HAS_NORMS=query_weight is not None and key_weight is not None,
    )
    return queries
