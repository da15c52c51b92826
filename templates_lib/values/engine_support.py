"""What an engine does with a checkpoint: asked by the planner, `apply`, the check of a plan and nodes alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from templates_lib.values.stored_weights import StoredWeights
from templates_lib.values.work import Phase

PLAIN_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}
"""Storage formats that are numbers as they are, and bytes of one."""
FORMATS = (*PLAIN_BYTES, "fp8", "int8", "int4", "mxfp4", "nvfp4")
"""Storage formats of weights (`templates_lib.models.quantization`)."""
AS_STORED: Mapping[str, str] = MappingProxyType({name: name for name in FORMATS})


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """Sizes of attention heads that an engine's kernels take."""

    listed: frozenset[int]
    least_other: int = 0
    """From here on all of them; 0: none but those listed."""

    def __contains__(self, size: int) -> bool:
        return size in self.listed or 0 < self.least_other <= size

    def __str__(self) -> str:
        names = ", ".join(map(str, sorted(self.listed)))
        return f"{names}, and all from {self.least_other} on" if self.least_other else names


class Unpacking(NamedTuple):
    """Time that widening weights takes of a product, as bytes for each weight at the card's memory rate."""

    few_rows: float
    many_rows: float
    most_few: int = 128
    """Rows that are few, at most."""


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """What an engine reads, what it makes of it, and how it can be cut over the devices of a node.

    Without arguments: it reads every checkpoint that Medley can describe, and keeps it as it is stored."""

    families: frozenset[str] | None = None
    """`model_type`s of config.json; None: all."""
    weights: Mapping[str, str] = field(default_factory=lambda: AS_STORED)
    """Storage format of a checkpoint → format in which its weights are held once they are loaded: the same, or a wider
    plain one. A format that is not there is not read."""
    only_of: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Storage format → the families in which it is read; one that is not there: in all of them."""
    unpacked: Mapping[str, Unpacking] = field(default_factory=dict)
    """Storage format → what a product takes beside what reading such weights and multiplying takes, where its kernels
    take longer than those that the estimate was fitted to."""
    computes_in: frozenset[str] | None = None
    """Types of activations and KV cache; others become bf16. None: whatever the checkpoint says."""
    head_sizes: HeadSizes | None = None
    """Of attention heads, of which its kernels take these; None: all."""
    latent_sizes: HeadSizes | None = None
    """The same of the latents of latent attention, with their rotary part."""
    mixes_windows: frozenset[str] | None = None
    """Families that it runs with sliding windows in some of their layers; None: all."""
    tensor_parallel: bool = True
    """A stage may be cut over devices of a node by heads and width."""
    expert_parallel: bool = True
    """Or by whole experts."""
    data_parallel: bool = True
    """A node may hold several replicas of its layers."""
    cuts_over_nodes: bool = True
    """An instance may have several stages, and a stage several nodes; else it is one node with the whole model."""
    hands_over: bool = True
    """The KV cache of a prompt that one instance has computed goes to another, which continues it: instances may be of
    one phase alone."""
    hand_over_types: frozenset[str] | None = None
    """Types of KV caches that are handed over; None: all."""
    hands_over_latents: bool = True
    """Caches of latent attention are handed over."""
    usable_share: float = 0.9
    """Share of a GPU's memory for weights, KV cache and activations, as vLLM's `gpu_memory_utilization`; the rest is
    for the CUDA context, captured graphs, collective buffers and fragmentation."""
    ends_in_each_part: frozenset[str] = frozenset()
    """Families of which every part that a node cuts its layers into holds the token embeddings and the LM head, not
    those parts alone that compute with them."""
    logit_bytes: float = 6.0
    """Bytes of one vocabulary entry of one sampled row: bf16 logits and their fp32 copy."""

    def knows(self, family: str) -> bool:
        return self.families is None or family in self.families

    def reads(self, family: str, stored: str) -> bool:
        """Tell whether weights in this storage format are read, in models of this family."""
        return stored in self.weights and family in self.only_of.get(stored, (family,))

    def unattended(self, stored: StoredWeights) -> str:
        """Return what of a checkpoint's attention it does not run, to read behind "it has"; empty: it runs it."""
        sizes, parts = (self.latent_sizes, "latents") if stored.is_latent else (self.head_sizes, "heads")
        if stored.head_size and sizes is not None and stored.head_size not in sizes:
            return f"attention {parts} of {stored.head_size} numbers, where sizes may be {sizes}"
        if stored.mixes_windows and self.mixes_windows is not None and stored.family not in self.mixes_windows:
            return f"sliding windows in some of its layers only, as {stored.family!r} may not have them"
        return ""

    def computed_in(self, stated: str) -> str:
        """Return the type of activations or KV cache that stands for the one that a checkpoint states."""
        return stated if self.computes_in is None or stated in self.computes_in else "bf16"

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Phases that instances of it serve."""
        return tuple(Phase) if self.hands_over else (Phase.AGGREGATED,)

    @property
    def held(self) -> frozenset[str]:
        """Formats in which weights may be held."""
        return frozenset(self.weights.values())


ANYTHING = EngineSupport()
