"""Seconds of single kernels on one GPU. Every function broadcasts over its array arguments."""

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Kernel, Link, LinkGroups

Floats = NDArray[np.float64]
Real = Floats | float
SMOOTHNESS = 4.0
"""Exponent of the smooth maximum: near the ridge of the roofline neither bound is met alone."""
ACTIVATION_BYTES = 2.0


def _bound(kernel: Kernel, peak_flops: float, bytes_per_s: float, flops: Floats, traffic: Floats) -> Floats:
    """The roofline: a smooth maximum of both times, non-decreasing in both."""
    compute_s, memory_s = flops / (peak_flops * kernel.compute), traffic / (bytes_per_s * kernel.memory)
    return np.asarray((compute_s**SMOOTHNESS + memory_s**SMOOTHNESS) ** (1 / SMOOTHNESS))


def gemm_seconds(
    kernel: Kernel,
    peak_flops: float,
    bytes_per_s: float,
    rows: Floats,
    columns: Real,
    depth: Real,
    weight_bytes: float,
) -> Floats:
    """A (rows × depth) · (depth × columns) product; `weight_bytes` per weight, activations of two bytes."""
    flops = 2.0 * (rows + kernel.pad_rows) * (columns + kernel.pad_columns) * depth
    traffic = columns * depth * weight_bytes + rows * (columns + depth) * ACTIVATION_BYTES
    return np.asarray(kernel.launch_s + _bound(kernel, peak_flops, bytes_per_s, flops, traffic))


def experts_seconds(
    kernel: Kernel,
    peak_flops: float,
    bytes_per_s: float,
    tokens: Floats,
    pairs: Floats,
    experts: Real,
    hidden: Real,
    width: Real,
    matrices: int,
    weight_bytes: float,
) -> Floats:
    """A fused mixture-of-experts block: `pairs` (token, expert) pairs over `experts` local experts of `width` each.

    Only visited experts are read: E · (1 - (1 - 1/E)^pairs) are expected when routing has no preference.
    """
    weights = matrices * hidden * width
    distinct = distinct_experts(pairs, experts)
    flops = 2.0 * (pairs + kernel.pad_rows * distinct) * weights
    traffic = distinct * weights * weight_bytes + pairs * (2.0 * hidden + matrices * width) * ACTIVATION_BYTES
    bound = _bound(kernel, peak_flops, bytes_per_s, flops, traffic)
    return np.asarray(kernel.launch_s + kernel.row_s * tokens + bound)


def distinct_experts(pairs: Floats, experts: Real) -> Floats:
    """Expected number of `experts` that `pairs` independent visits touch."""
    many = np.maximum(experts, 1.0 + 1e-9)
    return np.asarray(np.minimum(-many * np.expm1(pairs * np.log1p(-1.0 / many)), pairs))


def prefill_attention_seconds(
    kernel: Kernel,
    peak_flops: float,
    bytes_per_s: float,
    tokens: Floats,
    keys: Floats,
    heads: Real,
    width: Real,
    kv: Real,
) -> Floats:
    """`tokens` queries over `keys` keys each in the mean; `width` sums query-key and score-value sizes of a head.

    `kv` bytes of cache are written a token.
    """
    flops = 2.0 * tokens * (keys + kernel.pad_rows) * heads * width
    traffic = tokens * (heads * width * ACTIVATION_BYTES + kv)
    return np.asarray(kernel.launch_s + _bound(kernel, peak_flops, bytes_per_s, flops, traffic))


def decode_attention_seconds(
    kernel: Kernel,
    peak_flops: float,
    bytes_per_s: float,
    requests: Floats,
    keys: Floats,
    heads: Real,
    width: Real,
    kv: Real,
) -> Floats:
    """One query a request over `keys` cached tokens of `kv` bytes; the cache streams by once."""
    flops = 2.0 * requests * keys * heads * width
    bound = _bound(kernel, peak_flops, bytes_per_s, flops, requests * keys * kv)
    return np.asarray(kernel.launch_s + kernel.row_s * requests * heads + bound)


def all_reduce_seconds(
    links: LinkGroups, bytes_per_s: float, peers: int, message_bytes: Floats, wait: float = 1.0
) -> Floats:
    """Seconds of one all-reduce, in which each GPU sends and receives 2 (n - 1) / n of the message (ring; NCCL's bus
    bandwidth)."""
    if peers <= 1:
        return np.zeros_like(message_bytes)
    link = links.among(peers)
    return send_seconds(link, bytes_per_s, 2.0 * (peers - 1) / peers * message_bytes, wait)


def send_seconds(link: Link, bytes_per_s: float, message_bytes: Floats, wait: float = 1.0) -> Floats:
    """`wait`: latency inside an engine over latency alone (peers are not at the same point of their work)."""
    return np.asarray(wait * link.latency_s + message_bytes / (bytes_per_s * link.efficiency))
