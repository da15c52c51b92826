"""The pipeline that a scheduler feeds: the placement of its template, with a name for every node."""

from dataclasses import dataclass


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

    def __post_init__(self) -> None:
        if self.weight <= 0 or min(self.batch_cap, self.chunk_tokens, self.kv_blocks) < 1:
            raise ValueError(f"weight, batch cap, chunk and KV blocks of a node are positive: {self}")


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
        names = [node.name for stage in self.stages for node in stage]
        if not self.stages or not all(self.stages):
            raise ValueError("a pipeline has at least one stage, and a stage at least one node")
        if len(set(names)) != len(names):
            raise ValueError(f"nodes of a pipeline have names of their own, not {names}")
        if min(self.block_tokens, self.max_context_tokens, self.vocab_size) < 1:
            raise ValueError("block_tokens, max_context_tokens and vocab_size are positive")

    @property
    def groups(self) -> int:
        """One for each stage: while one group is at a stage, every other stage has one too (`lockstep-v1`)."""
        return len(self.stages)

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)
