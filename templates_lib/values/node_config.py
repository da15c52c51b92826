"""A node configuration: the shape of a rentable machine, never its price."""

from dataclasses import dataclass

NETWORK_CLASSES_GBPS = (0, 10, 25, 50, 100, 200)


def network_class(network_gbps: float) -> int:
    """The largest network class (Gbit/s) that `network_gbps` reaches; 0 means that nodes cannot be joined."""
    return max(c for c in NETWORK_CLASSES_GBPS if c <= network_gbps or c == 0)


def config_id(gpu: str, gpu_count: int, network_gbps: float) -> str:
    """The identity of a configuration, for example `L40S:2/n25`."""
    return f"{gpu}:{gpu_count}/n{network_class(network_gbps)}"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """`gpu_count` GPUs of one type in one machine, with the least network and host memory its sellers give."""

    id: str
    gpu: str
    gpu_count: int
    intra_node_gbps: float
    """Bandwidth of one GPU towards its peers in the node (one direction), gigabits per second."""
    network_gbps: float
    """Bandwidth of the node towards other nodes, gigabits per second."""
    host_memory_gib: float

    @property
    def network_class(self) -> int:
        return network_class(self.network_gbps)

    @property
    def joins_others(self) -> bool:
        """Tell whether the node may be part of a multi-node template or hand a KV cache over."""
        return self.network_class > 0
