"""Seconds of single kernels on one GPU. Every function broadcasts over its array arguments."""

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Kernel, Link

Floats = NDArray[np.float64]
SMOOTHNESS = 4.0
"""Exponent of the smooth maximum: near the ridge of the roofline neither bound is met alone."""
ACTIVATION_BYTES = 2.0


def roofline(compute_s: Floats, memory_s: Floats) -> Floats:
    """A smooth maximum, non-decreasing in both."""
    return np.asarray((compute_s**SMOOTHNESS + memory_s**SMOOTHNESS) ** (1 / SMOOTHNESS))


def gemm_seconds(
    kernel: Kernel,
    peak_flops: float,
    bytes_per_s: float,
    rows: Floats,
    columns: float,
    depth: float,
    weight_bytes: float,
) -> Floats:
    """A (rows × depth) · (depth × columns) product; `weight_bytes` per weight, activations of two bytes."""
    flops = 2.0 * (rows + kernel.pad_rows) * (columns + kernel.pad_columns) * depth
    traffic = columns * depth * weight_bytes + rows * (columns + depth) * ACTIVATION_BYTES
    return kernel.launch_s + roofline(flops / (peak_flops * kernel.compute), traffic / (bytes_per_s * kernel.memory))


def experts_seconds(
    kernel: Kernel,
    peak_flops: float,
    bytes_per_s: float,
    pairs: Floats,
    experts: float,
    weights_per_expert: float,
    weight_bytes: float,
) -> Floats:
    """`pairs` (token, expert) pairs over `experts` local experts of which only the visited ones are read.

    Expected distinct experts: E · (1 - (1 - 1/E)^pairs), for routing without preference.
    """
    distinct = distinct_experts(pairs, experts)
    flops = 2.0 * (pairs + kernel.pad_rows * distinct) * weights_per_expert
    traffic = distinct * weights_per_expert * weight_bytes
    return kernel.launch_s + roofline(flops / (peak_flops * kernel.compute), traffic / (bytes_per_s * kernel.memory))


def distinct_experts(pairs: Floats, experts: float) -> Floats:
    """Expected number of `experts` that `pairs` independent visits touch."""
    if experts <= 1:
        return np.minimum(pairs, experts)
    return np.asarray(-experts * np.expm1(pairs * np.log1p(-1.0 / experts)))


def attention_seconds(kernel: Kernel, peak_flops: float, bytes_per_s: float, flops: Floats, traffic: Floats) -> Floats:
    """Products with keys and values (`flops`) while the KV cache streams by (`traffic` bytes)."""
    return kernel.launch_s + roofline(flops / (peak_flops * kernel.compute), traffic / (bytes_per_s * kernel.memory))


def all_reduce_seconds(link: Link, bytes_per_s: float, peers: int, message_bytes: Floats) -> Floats:
    """Ring or one-shot all-reduce: each GPU sends and receives 2 (n - 1) / n of the message."""
    if peers <= 1:
        return np.zeros_like(message_bytes)
    traffic = 2.0 * (peers - 1) / peers * message_bytes
    return link.latency_s + link.latency_per_peer_s * (peers - 1) + traffic / (bytes_per_s * link.efficiency)


def send_seconds(link: Link, bytes_per_s: float, message_bytes: Floats) -> Floats:
    return link.latency_s + message_bytes / (bytes_per_s * link.efficiency)
