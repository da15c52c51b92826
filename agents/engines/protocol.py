"""The one interface to an engine that holds consecutive layers of a model."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from agents.engines.batch import BlockName, StepBatch
from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import StepOutput
from agents.transfer.memory import Memory

Lend = Callable[[str, KvPart], Memory]
Wrote = Callable[[int], None]


class KvStore(Protocol):
    """Where KV caches of requests lie that are handed to, or come from, another instance."""

    @property
    def facts(self) -> StageFacts:
        """Return what is held; constant for the store's life."""

    def reserve(self, request_id: str, tokens: int) -> None:
        """Makes room for an incoming request whose first `tokens` positions will be imported."""

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        """Copies the part into `out`, which `empty_part` makes, or memory like that which is used again."""

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        """Writes what another engine exported into a reserved request; parts may come in any order."""

    @property
    def lent_kv(self) -> Lend | None:
        """`lent_kv(request_id, part)`: the memory where the part lies, of all KV heads that are held, in the order in
        which it is exported. None where KV cache has to be copied."""

    def first_kept_token(self, layer: int, tokens: int) -> int:
        """The first position whose KV is kept in `layer` of a request with `tokens` in its cache: 0 unless the layer
        has a sliding window. A hand-off moves [this, tokens) and nothing else."""


class StageEngine(KvStore, Protocol):
    """Weights of a layer range and the KV cache of its requests.

    One thread owns it: steps and frees. Others may reserve meanwhile, and copy KV cache out and in, of requests that
    are not being freed, as far as it is computed; `GuardedEngine` sees to both.

    A request exists from its first `step` (or `reserve`) to `free`. Steps are synchronous; they raise
    OutOfKvBlocksError or BadBatchError before anything is changed.
    """

    wrote: Wrote
    """Set by who wants to know, and called during a step by an engine that can tell: keys and values of the step's
    tokens are in the cache, or on their way behind which copies wait, of all held layers before this one."""

    @property
    def free_kv_blocks(self) -> int:
        """Blocks of `facts.block_tokens` tokens, over all held layers, that no request holds."""

    def kv_blocks_short(self, batch: StepBatch) -> int:
        """Blocks that must be freed before `step(batch)` can run; 0 when it can."""

    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        """Runs the held layers on the batch.

        `rows`: (tokens,) int64 token ids on the first stage, else (tokens, hidden size) as the stage before returned
        them. Requests unknown until now begin at position 0, or behind the blocks that they share; one whose last step
        brought a draft goes on behind any token of it that this stage was told.
        """

    def free(self, request_id: str, kept: Sequence[int] = ()) -> None:
        """Gives the request's KV blocks back; an unknown id is ignored, so that freeing twice is harmless. `kept`: full
        blocks of it that stay under their names, where `facts.shares_kv`."""

    def drop(self, blocks: Sequence[BlockName]) -> None:
        """Gives kept blocks back. Requests that share them go on. Raises BadBatchError for one that is not kept."""

    def close(self) -> None:
        """Gives all memory back; the engine must not be used after."""
