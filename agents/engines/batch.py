"""Batch of one step of an engine: some tokens of each of several requests."""

from dataclasses import dataclass
from typing import NamedTuple

from agents.engines.given_rows import NOTHING_GIVEN, GivenRows
from agents.engines.grid_positions import GridSpan
from agents.engines.sampling import RuledText, Sampling


class BlockName(NamedTuple):
    """A full KV block of a request, which may have been freed and the block kept."""

    request_id: str
    block: int
    """Its place in that request, from 0."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The next `tokens` tokens of one request: a chunk of its prompt, or the one token sampled last, alone or with a
    draft of what comes behind it."""

    id: str
    position: int
    """Tokens of this request already in the KV cache: the place of the first token of this step."""
    tokens: int
    sampling: Sampling | None = None
    """Set where a token is to be sampled after the last of these: a decode step, or the last chunk of a prompt."""
    ruled: RuledText | None = None
    """Set with the first `sampling` of a request that has rules. The engine keeps them, and counts what it chooses."""
    grids: tuple[GridSpan, ...] = ()
    """Images and videos of the whole prompt, in order, the same in each step: for models whose tokens have three
    positions (`facts.position_axes`)."""
    hands_out_rows: bool = False
    """The last stage gives hidden states of these tokens with its output."""
    shared: tuple[BlockName, ...] = ()
    """Where a request begins behind tokens whose KV cache is there: the blocks that it begins with, which are not
    written to any more. Only where `StageFacts.shares_kv`. Tokens do not say what blocks of given rows hold: whoever
    has them shared knows that they are the same rows."""
    draft: tuple[int, ...] = ()
    """The last of these tokens, where they are drafted and not known; every stage is told them. A token is sampled
    behind the last known one, and behind each of these as long as they are what was sampled. The request's next step
    begins behind those that were, and writes over the others. Only where `StageFacts.verifies_drafts`."""

    @property
    def known_end(self) -> int:
        """Count the request's tokens up to the last one of this step that is no draft."""
        return self.position + self.tokens - len(self.draft)


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Requests of one step. The rows of its input and output follow this order, tokens of a request together."""

    requests: tuple[StepRequest, ...]
    given: GivenRows = NOTHING_GIVEN
    """Rows that other components made: tokens that they stand for have ids of the vocabulary, which are not looked
    up."""

    @property
    def tokens(self) -> int:
        return sum(request.tokens for request in self.requests)
