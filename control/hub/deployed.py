"""An instance as the hub needs to know it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from control.hub.gang import Gang
from control.lifecycle.state import InstanceState
from templates_lib.values.speculation import Speculation


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Files and sizes of a model that nodes and gateways need beside its placement."""

    name: str
    """As clients call it."""
    weights: str
    """`hf:ORG/NAME@REVISION`, `package:NAME` or `path:PATH`, as nodes find it."""
    vocab_size: int
    max_context_tokens: int
    prefix_cache: bool = True
    """Prompts begin with KV blocks of those before them that began alike, on the engines of our own."""
    slab_mib: int = 0
    """Shared memory that a node needs for pictures and sounds on their way; 0: it takes none."""
    request_tokens: float = 0.0
    """Prompt and output of its mean request; 0: not known."""
    longest_tokens: int = 0
    """The same of its longest; 0: not known."""
    speculation: Speculation | None = None
    """How schedulers of our own draft answers; None: not at all."""


@dataclass(frozen=True, slots=True)
class Deployed:
    instance: str
    state: InstanceState
    gang: Gang
    files: Mapping[str, ModelFiles]
    """By executor; of one that is not named the model is not served any more, so that it may only finish what it
    has."""
    nodes: tuple[str | None, ...]
    """Name of each node of the gang; None while there is none."""
    memory_mib: tuple[int, ...]
    """Of each node, for weights and KV cache; 0: all that the node has."""
    requests_per_s: Mapping[str, float] = field(default_factory=dict)
    """That are planned of it, by executor, where executors share a KV cache."""
