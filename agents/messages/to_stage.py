"""What a stage worker receives from its instance's scheduler. Steps and frees take effect in the order they come."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import (
    MAX_GIVEN,
    MAX_RUNS,
    MAX_TOKENS,
    Count,
    FewTokenIds,
    MaybeName,
    MaybeTrace,
    Name,
    Port,
    Position,
    Text,
    TokenIds,
)
from agents.messages.component_work import Grid, PromptRows
from agents.messages.to_scheduler import LogitRules, Pooling, Sampling
from agents.messages.to_sidecar import Consumers, WaitSeconds

MAX_PEERS = 256
"""Data-parallel peers of one stage, and stages of one instance."""

MAX_PARTS = 64
"""Pipeline parts inside one node, and data-parallel replicas, and devices."""

MAX_WORKERS = 1 << 16
"""Of one instance."""

NOWHERE = -1
"""Instead of a worker, where there is no stage before or after."""

Worker = Annotated[int, Meta(ge=0, lt=MAX_WORKERS)]
"""The workers of an instance are numbered along the way of its rows, which go from lower to higher ones only."""
Neighbour = Annotated[int, Meta(ge=NOWHERE, lt=MAX_WORKERS)]
Neighbours = Annotated[tuple[Worker, ...], Meta(max_length=MAX_PEERS)]


class Connect(Struct, frozen=True, array_like=True, tag="connect"):
    """Which worker you are; connect your edges. Answered by `StageConnected`."""

    worker: Worker
    sources: Neighbours
    """That send you rows; none where the model begins."""
    targets: Neighbours
    """That you send rows to; none where it ends."""
    rendezvous_host: Name
    rendezvous_port: Port
    max_rows: Annotated[int, Meta(ge=1, le=1 << 20)]
    """Tokens of one step at one worker, at most."""
    tries_nccl: bool
    """Whether there are workers on GPUs that could send each other rows without CPU memory. All are told the same: the
    two ends of an edge find out together."""


class RuledText(Struct, frozen=True, array_like=True):
    """Rules by which tokens of a request are chosen, and those before the first that is."""

    rules: LogitRules
    prompt: TokenIds
    """Empty where no rule counts them, as is `output`."""
    output: TokenIds


class PooledPrompt(Struct, frozen=True, array_like=True):
    """What is to be made of the hidden states of a run, in as many steps as its prompt takes."""

    pooling: Pooling
    tokens: Position
    """Of the prompt: the step that computes the last of them gives the state."""


BlockName = tuple[Count, Position]
"""Of a full KV block: the run that computed it, and the block's place in that run, from 0."""
BlockNames = Annotated[tuple[BlockName, ...], Meta(max_length=MAX_TOKENS)]


class StageEntry(Struct, frozen=True, array_like=True):
    """The next tokens of one request, as one worker sees them."""

    run: Count
    position: Position
    """Of the first of them."""
    tokens: Position
    source: Neighbour
    """Worker that sends their rows."""
    target: Neighbour
    """Worker that gets them."""
    sampling: Sampling | None = None
    """On the last stage, where a token is to be sampled behind them. Rules come in `ruled`."""
    trace: MaybeTrace = ""
    """Of the request, where it begins."""
    ruled: RuledText | None = None
    """With the first `sampling` of a run that has rules. The worker keeps them, and counts what it chooses itself."""
    shared: BlockNames = ()
    """Where a run begins behind tokens whose KV cache is here: the blocks that it begins with, up to `position`. Not
    for a worker that does not say `shares_kv`."""
    pooled: PooledPrompt | None = None
    """On the last stage, with each step of a run whose prompt's state is wanted."""
    draft: FewTokenIds = ()
    """The last of these tokens, where they are drafted and not known: those that are what was sampled before them are
    right, and the run's next step begins behind them. Not for a worker that does not say `verifies_drafts`."""


class StageStep(Struct, frozen=True, array_like=True, tag="stage_step"):
    """One pass of a group. Every worker takes the steps it is part of in the order of their numbers."""

    number: Count
    entries: Annotated[tuple[StageEntry, ...], Meta(max_length=MAX_RUNS)]
    """None where only replicas have some that this worker holds experts of."""
    token_ids: TokenIds = ()
    """On the first stage: of all entries, in turn."""


class FreeRuns(Struct, frozen=True, array_like=True, tag="free_runs"):
    """Give the KV cache of these back."""

    runs: Annotated[tuple[Count, ...], Meta(max_length=MAX_RUNS)]
    kept: Annotated[tuple[Position, ...], Meta(max_length=MAX_TOKENS)] = ()
    """Blocks of each of them that are kept under their names, for runs that begin with them, until they are dropped."""


class DropKept(Struct, frozen=True, array_like=True, tag="drop_kept"):
    """Keep these no longer. No run holds them."""

    blocks: BlockNames


class Leave(Struct, frozen=True, array_like=True, tag="leave"):
    """The instance is at its end: free everything and go."""

    reason: Text


class GridAt(Struct, frozen=True, array_like=True):
    """Tokens that stand for an image or a video, row by row and frame by frame."""

    first_token: Position
    grid: Grid
    frame_step: Annotated[float, Meta(ge=0, le=1 << 16)] = 1.0
    """Positions from a frame to the next."""


class GiveRows(Struct, frozen=True, array_like=True, tag="give_rows"):
    """What other components have made of a run, told before its first step. A worker that is to take some answers with
    `RowsHere` or `RowsMissing`. Not for one that does not say `takes_rows`."""

    run: Count
    grids: Annotated[tuple[GridAt, ...], Meta(max_length=MAX_GIVEN)]
    """Of the whole prompt, in order, for models whose tokens have three positions."""
    wanted: Annotated[tuple[PromptRows, ...], Meta(max_length=MAX_GIVEN)]
    """To be taken: those that the run attends to, and on its first worker those that stand for tokens which it has to
    compute."""
    takers: Consumers
    """Workers of the node that take each of them."""
    wait_s: WaitSeconds
    """For each of them."""


class ReserveRun(Struct, frozen=True, array_like=True, tag="reserve_run"):
    """Make room for a run whose first tokens come as KV cache from another instance. Runs are reserved in rising
    order, and `KvArrived` says that all of it is here."""

    run: Count
    tokens: Position


class OpenKvLink(Struct, frozen=True, array_like=True, tag="open_kv_link"):
    """Connect to a stage worker of another instance, for KV cache to go from one to the other; anew when the link is
    known already. The other worker is told the same."""

    link: Name
    epoch: Count
    """Rises each time the link is connected anew."""
    sends: bool
    """Whether KV cache leaves from here, or comes."""
    rendezvous_host: Name
    rendezvous_port: Port
    sender_dtype: Name
    """What the KV cache is in on its way."""
    secret: MaybeName = ""
    """Given to both workers, in hexadecimal: the link is encrypted. Empty: it stays in a private network."""


class CloseKvLink(Struct, frozen=True, array_like=True, tag="close_kv_link"):
    """The other instance is gone, or has had nothing to do with this one for long."""

    link: Name


class SendKv(Struct, frozen=True, array_like=True, tag="send_kv"):
    """Send what these layers keep of a run, as it is computed. A link that breaks goes on, connected anew, where it
    was."""

    link: Name
    run: Count
    target_run: Count
    """What the run is called there."""
    tokens: Position
    first_layer: Position
    layers: Position


ToStage = Connect | StageStep | FreeRuns | DropKept | Leave | GiveRows | ReserveRun | OpenKvLink | CloseKvLink | SendKv
