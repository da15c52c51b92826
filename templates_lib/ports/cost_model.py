"""The one source of time: seconds that a node needs for a step of a stage."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Split of a node's layers over its GPUs; tp · dp · pp = gpu_count, ep divides tp · dp."""

    tp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class NodeStep:
    """One iteration of a node, in totals over the whole node. Every field is an array; all broadcast together.

    A step may hold prompt chunks and decodes at once (chunked prefill).
    """

    layers: Floats
    """Layers held: the worst window of that many consecutive layers is charged where layers differ."""
    prompt_tokens: Floats
    """New prompt tokens in the step."""
    prompt_context: Floats
    """Mean number of earlier tokens (cached or in the same prompt) that a new prompt token attends to."""
    decode_requests: Floats
    """Requests that each get one more token."""
    decode_context: Floats
    """Mean tokens in the KV cache of those requests."""


@dataclass(frozen=True, slots=True)
class GpuPart:
    """What a step has of each of its GPUs while others compute on them. Raises ValueError for a part outside (0, 1]."""

    compute: float = 1.0
    """Share of the processors that the step may use."""
    bandwidth: float = 1.0
    """Share of the memory bandwidth that those processors could use, as far as what runs beside leaves it."""

    def __post_init__(self) -> None:
        for name, value in (("compute", self.compute), ("bandwidth", self.bandwidth)):
            if not 0 < value <= 1:
                raise ValueError(f"a step cannot have {value:g} of the {name} of a GPU: give more than 0, at most 1")


WHOLE_GPU = GpuPart()


class StageCostModel(Protocol):
    @property
    def source(self) -> str:
        """`measured`, `estimated`, `kernels`, or which of them where."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything that a time depends on, engine included."""
        ...

    def stage_seconds(
        self,
        model: ModelSpec,
        node: NodeConfig,
        parallel: Parallel,
        step: NodeStep,
        *,
        head: bool,
        part: GpuPart = WHOLE_GPU,
    ) -> Floats:
        """Seconds of one step, LM head and sampling included when `head`; shaped as the step's arrays broadcast.

        With dp the step's totals are spread over the replicas; with pp it is the latency through all parts. `part`:
        what the step has of each GPU. A smaller one never takes less time.
        """
        ...

    def measured_splits(self, model: ModelSpec, node: NodeConfig) -> tuple[Parallel, ...]:
        """Return the splits of the node that plans choose among, whose times were measured; none: among all splits."""
        ...

    def hop_seconds(self, model: ModelSpec, node: NodeConfig, tokens: Floats) -> Floats:
        """Seconds to send the activations of `tokens` tokens from this node to the next stage's node."""
        ...

    def transfer_bytes_per_s(self, model: ModelSpec, node: NodeConfig) -> float:
        """Bytes/s of the network that activations and KV caches get in one direction; 0 for a node that joins no
        others."""
        ...

    def hand_off_s_per_byte(self, model: ModelSpec, node: NodeConfig) -> tuple[float, float]:
        """Return what each byte of a KV cache takes of the node's steps, in seconds: at the node that sends it, and at
        the one that takes it in. 0 where a network card does it."""
        ...

    def processor_cores(self, model: ModelSpec, node: NodeConfig) -> float | None:
        """Cores of the machine that a quota leaves the node; None where steps are not held to one."""
        ...
