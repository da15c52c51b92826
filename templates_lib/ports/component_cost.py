"""Seconds and bytes of a component of an any-to-any model on one replica's GPUs."""

from typing import Protocol

from templates_lib.graphs.component import Component, ComponentWork
from templates_lib.values.node_config import NodeConfig


class ComponentCostModel(Protocol):
    @property
    def source(self) -> str:
        """`estimated` or `measured`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything that a time depends on."""
        ...

    def seconds(self, component: Component, node: NodeConfig, work: ComponentWork, requests: float) -> float:
        """Seconds in which a replica on all GPUs of `node` serves `requests` equal requests together, when it does
        nothing else."""
        ...

    def held_bytes(self, component: Component, node: NodeConfig, work: ComponentWork) -> float:
        """Bytes that a component takes of each GPU of `node`, whatever it serves: weights, and activations of one
        request. A decoder's KV cache is not part of it."""
        ...

    def most_requests(
        self, component: Component, node: NodeConfig, work: ComponentWork, reserved_bytes: float
    ) -> float:
        """Requests that a replica can hold at once, where others keep `reserved_bytes` of each GPU; less than 1: none.

        What decoders are co-located with comes off their KV cache."""
        ...
