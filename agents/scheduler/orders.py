"""Orders of the scheduler to the stages. They are sent in the order they are given."""

from dataclasses import dataclass

from agents.messages.component_work import PromptRows
from agents.messages.to_scheduler import OtherLeg, Sampling
from agents.messages.to_stage import GridAt, PooledPrompt, RuledText
from agents.scheduler.block_book import BlockName


@dataclass(frozen=True, slots=True)
class StepEntry:
    """The next tokens of one request."""

    run: int
    nodes: tuple[int, ...]
    """One in each stage."""
    position: int
    token_ids: tuple[int, ...]
    sampling: Sampling | None
    """Set where the last of these tokens is followed by a new one."""
    trace: str = ""
    """Of the request, where it begins."""
    ruled: RuledText | None = None
    """Set with the first `sampling` of a run that has rules."""
    shared: tuple[tuple[BlockName, ...], ...] = ()
    """Where a run begins behind tokens whose KV cache is there: the blocks that it holds, at the node of each stage."""
    pooled: PooledPrompt | None = None
    """Set in each step of a prompt whose state is wanted."""
    draft: tuple[int, ...] = ()
    """The last of the tokens, where they are not known but drafted: what is sampled behind each says whether the next
    is right."""

    @property
    def known_tokens(self) -> int:
        """Count the tokens that are no draft."""
        return len(self.token_ids) - len(self.draft)

    @property
    def gives_state(self) -> bool:
        """Tell whether the prompt's state is there with the last of these tokens."""
        return self.pooled is not None and self.position + len(self.token_ids) == self.pooled.tokens


@dataclass(frozen=True, slots=True)
class GroupStep:
    """One pass of a group through all stages."""

    number: int
    """Rises by one from step to step of the whole instance."""
    group: int
    entries: tuple[StepEntry, ...]


@dataclass(frozen=True, slots=True)
class ReleaseKv:
    """The KV cache of a run is no longer needed. It may be in a step ordered before, whose result is then ignored."""

    run: int
    nodes: tuple[int, ...]
    kept: tuple[tuple[int, ...], ...] = ()
    """Those of its blocks, at the node of each stage, that stay under their names until they are dropped; empty: none
    anywhere."""


@dataclass(frozen=True, slots=True)
class DropBlocks:
    """Kept blocks of one node, which no run holds, are no longer needed."""

    stage: int
    node: int
    blocks: tuple[BlockName, ...]


@dataclass(frozen=True, slots=True)
class ReserveKv:
    """Room for the KV cache of a run that comes from another instance."""

    run: int
    nodes: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class TakeRows:
    """Before the first step of a run: what other components have made of it."""

    run: int
    nodes: tuple[int, ...]
    grids: tuple[GridAt, ...]
    """For every worker."""
    placed: tuple[PromptRows, ...]
    """For the first worker: in place of embeddings that it would compute."""
    attended: tuple[PromptRows, ...]
    """For every worker."""

    @property
    def taking_stages(self) -> set[int]:
        """Return the stages whose node is to take rows."""
        return set(range(len(self.nodes) if self.attended else 1 if self.placed else 0))


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send the KV cache of a run to another instance."""

    run: int
    nodes: tuple[int, ...]
    tokens: int
    to: OtherLeg
    target_run: int
    """Its name there."""
    target_nodes: tuple[int, ...]
    """One in each stage there."""


Order = GroupStep | ReleaseKv | DropBlocks | ReserveKv | TakeRows | Dispatch
