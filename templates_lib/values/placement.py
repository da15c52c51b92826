"""Where the layers of a model go: the payload of a template of kind `pipeline`."""

from dataclasses import dataclass
from typing import Any

FULLEST = 1.5
"""Times its chunk, that a step of several prompts has at most: prompts are whole, and as many go in one step as come
nearest to the chunk (`policies.lanes`)."""


@dataclass(frozen=True, slots=True)
class StageNodes:
    """Equal nodes of one stage and how each of them runs its layers."""

    config: str
    count: int
    weight: float
    """Share of the stage's work that each of these nodes takes (all nodes of a stage add up to 1)."""
    tp: int
    dp: int
    pp: int
    ep: int
    batch_cap: int
    """Requests in one decode step of one node (0: no decode work)."""
    chunk_tokens: int
    """Prompt tokens in one prefill step of one node (0: no prefill work)."""
    kv_blocks: int
    """KV cache blocks of 16 tokens, for the held layers, over the whole node."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers [first_layer, first_layer + layers) on data-parallel peers."""

    first_layer: int
    layers: int
    first: bool
    """Holds the token embedding."""
    last: bool
    """Holds the LM head."""
    nodes: tuple[StageNodes, ...]


@dataclass(frozen=True, slots=True)
class PipelinePlacement:
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """What runs on a template's nodes; `kind` and `version` say how to read `payload` (plain JSON values)."""

    kind: str
    version: int
    payload: dict[str, Any]
