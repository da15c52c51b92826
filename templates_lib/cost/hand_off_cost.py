"""Cost of handing KV caches over to the nodes that compute."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandOffCost:
    """Seconds of one whole processor, taken from the steps of the node's engine: links have threads of their own on
    its processors, and share them with it."""

    send_cpu_s_per_byte: float
    """Of a KV cache that is sent while its prompt is computed."""
    take_cpu_s_per_byte: float
    """Of a KV cache that comes while others are decoded."""

    @property
    def cpu_s_per_byte(self) -> float:
        """Of the end that needs more: what bounds the rate of a link."""
        return max(self.send_cpu_s_per_byte, self.take_cpu_s_per_byte)
