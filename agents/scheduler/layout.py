"""The pipeline that a scheduler feeds: the placement of its template, with a name for every node."""

from dataclasses import dataclass, replace

from policies.lanes import lanes
from templates_lib.values.placement import FULLEST


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """One node of a stage, and what it takes at once."""

    name: str
    """What its key stands for on the channel."""
    weight: float
    """Share of each group's requests; relative to its peers of the stage."""
    batch_cap: int
    """Requests of one group, and so of one decode step."""
    chunk_tokens: int
    """Prompt tokens of one step."""
    kv_blocks: int
    """Blocks of its KV cache, each for `block_tokens` tokens in all its layers."""
    parts: int = 1
    """Pipeline parts inside it: as many steps as it works on at once."""
    replica: int = 0
    """Data-parallel replicas inside a node are peers of their own, of the same name: which of them this is."""
    joint: bool = False
    """The replicas of its node hold experts of each other: all take part in the steps of each."""

    def __post_init__(self) -> None:
        if self.weight <= 0 or min(self.batch_cap, self.chunk_tokens, self.kv_blocks, self.parts) < 1:
            raise ValueError(f"weight, batch cap, chunk, KV blocks and parts of a node are positive: {self}")

    @property
    def most_rows(self) -> int:
        """Return the most rows of one step, of a group or of a lane."""
        return max(self.chunk_tokens + self.batch_cap, int(FULLEST * self.chunk_tokens))


@dataclass(frozen=True, slots=True)
class PipelineLayout:
    model: str
    stages: tuple[tuple[NodeLimits, ...], ...]
    """Data-parallel peers of each stage."""
    block_tokens: int
    max_context_tokens: int
    """Prompt and output together."""
    vocab_size: int
    """Other token ids are refused before a stage sees them."""

    def __post_init__(self) -> None:
        names = [(node.name, node.replica) for stage in self.stages for node in stage]
        if not self.stages or not all(self.stages):
            raise ValueError("a pipeline has at least one stage, and a stage at least one node")
        if len(set(names)) != len(names):
            raise ValueError(f"nodes of a pipeline have names of their own, not {names}")
        if min(self.block_tokens, self.max_context_tokens, self.vocab_size) < 1:
            raise ValueError("block_tokens, max_context_tokens and vocab_size are positive")

    @property
    def groups(self) -> int:
        """One for each part of each stage: while one group is there, every other part has one too (`lockstep-v1`)."""
        return sum(max(node.parts for node in stage) for stage in self.stages)

    @property
    def lanes(self) -> int:
        """Groups for prefill legs, beside. A prompt has nobody to be in step with, and its client waits for its pass:
        for each part one that it works on, and one or more that come next (`policies.lanes`)."""
        nodes = [node for stage in self.stages for node in stage]
        return lanes(sum(node.parts for node in nodes), [node.batch_cap for node in nodes])

    def in_pool(self, block_tokens: int, kv_blocks: int) -> "PipelineLayout":
        """Return the same with blocks of a KV cache that models share, of which each node may have so many."""
        stages = tuple(tuple(replace(node, kv_blocks=kv_blocks) for node in stage) for stage in self.stages)
        return replace(self, stages=stages, block_tokens=block_tokens)

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)
