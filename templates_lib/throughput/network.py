"""Bandwidth of the network between nodes."""

from templates_lib.values.node_config import NodeConfig

USABLE_SHARE = 0.7
"""Share of the line rate that activations and KV caches get in each direction: transports reach less than the line
rate, and weights, control messages and other tenants take theirs. An assumption; no measurement backs it."""


def usable_bytes_per_s(node: NodeConfig) -> float:
    """Bytes per second in one direction; 0 for a node that joins no others."""
    return USABLE_SHARE * node.network_gbps * 1e9 / 8 if node.joins_others else 0.0
