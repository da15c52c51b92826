"""Messages to a node agent from the hub: the whole of what it shall do for one instance, every time.

Work for an instance ends when that for another one, or for none, comes.
"""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Count, Endpoint, MaybeName, Name, Position, PublicKey
from agents.messages.to_stage import MAX_PARTS, MAX_PEERS
from templates_lib.values.engines import DEFAULT_ENGINE, stage_engines
from templates_lib.values.placement import ONLY
from templates_lib.values.speculation import Speculation

MAX_EXECUTORS = 64
MAX_GATEWAYS = 1024
MAX_COMPONENTS = 64
MAX_TOGETHER = 1024
"""Pairs of a component and a request type."""


class Share(Struct, frozen=True, array_like=True):
    """One node of a stage, or one replica inside it, and what that takes at once, as
    `agents.scheduler.layout.NodeLimits`."""

    name: Name
    weight: Annotated[float, Meta(gt=0, le=1)]
    batch_cap: Annotated[int, Meta(ge=1, le=1 << 20)]
    chunk_tokens: Annotated[int, Meta(ge=1, le=1 << 20)]
    kv_blocks: Annotated[int, Meta(ge=1, lt=1 << 48)]
    parts: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1
    replica: Annotated[int, Meta(ge=0, lt=MAX_PARTS)] = 0
    joint: bool = False


Peers = Annotated[tuple[Share, ...], Meta(min_length=1, max_length=MAX_PEERS)]


class RunScheduler(Struct, frozen=True, array_like=True):
    """Run the executor's scheduler here: once all nodes of the instance have a key."""

    stages: Annotated[tuple[Peers, ...], Meta(min_length=1, max_length=MAX_PEERS)]
    block_tokens: Annotated[int, Meta(ge=1, le=1 << 16)]
    max_context_tokens: Position
    vocab_size: Count
    gateways: Annotated[dict[PublicKey, Name], Meta(max_length=MAX_GATEWAYS)]
    workers: Annotated[dict[PublicKey, Name], Meta(max_length=MAX_PEERS * MAX_PEERS)]


class RunStage(Struct, frozen=True, array_like=True):
    """Run the stage's workers here, `replicas` x `parts` of them: once the scheduler has said where it is."""

    scheduler: Endpoint
    """Where it listens for stage workers."""
    scheduler_key: PublicKey
    weights: Name
    """`hf:ORG/NAME@REVISION`, `package:NAME` or `path:PATH`."""
    first_layer: Position
    layers: Annotated[int, Meta(ge=1, le=1 << 20)]
    kv_blocks: Annotated[int, Meta(ge=1, lt=1 << 48)]
    """Of each worker."""
    dtype: Name
    memory_mib: Count
    """For weights and KV cache of all of them, as much for each; 0: all that the node has."""
    shards: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1
    """Devices of the node that each worker's part is cut over."""
    whole_experts: bool = False
    """Each device holds some experts whole, and not a part of all."""
    replicas: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1
    """Each holds all of these layers, and takes some of the requests."""
    parts: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1
    """Each holds some of these layers (`agents.node.worker_commands`), and takes all requests of its replica."""
    joint: bool = False
    """The experts are spread over the devices of all replicas, not of each."""


class RunWhole(Struct, frozen=True, array_like=True):
    """Have the executor's scheduler compute the model here, as it is the engine too: beside `RunScheduler`."""

    weights: Name
    """As of `RunStage`."""
    dtype: Name
    memory_mib: Count
    """For weights and KV cache; 0: all that the node has."""
    shards: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1
    """Devices of the node that each part is cut over."""
    whole_experts: bool = False
    """Each device holds some experts whole, and not a part of all."""
    parts: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1
    """Consecutive parts of the model, on devices of their own."""
    components: Annotated[tuple[Name, ...], Meta(max_length=MAX_COMPONENTS)] = ()
    """Of the model's graph, which it computes alone; empty: all of the model."""
    together: Annotated[dict[Name, Annotated[int, Meta(ge=1, le=1 << 20)]], Meta(max_length=MAX_TOGETHER)] = {}
    """`COMPONENT/TYPE` → requests that it is planned to serve at once."""


class PoolMember(Struct, frozen=True, array_like=True):
    """A model whose engine keeps its KV cache in the pool of its node."""

    weights: Name
    """As of `RunStage`."""
    dtype: Name
    compute: Annotated[float, Meta(gt=0, le=1)]
    """Share of the processors that each of its jobs takes: jobs whose shares do not fit together take turns."""
    requests_per_s: Annotated[float, Meta(ge=0, le=1e9)]
    """That are planned here. With the next two it says how much of the pool the member is given at first."""
    request_tokens: Annotated[float, Meta(gt=0, le=1 << 40)]
    """Prompt and output of its mean request."""
    longest_tokens: Annotated[int, Meta(ge=1, le=1 << 40)]
    """Of its longest: whatever the others need, there is room for one."""


class Pool(Struct, frozen=True, array_like=True):
    """Run the owner of a KV cache that executors of this node share, as members by number, and take turns."""

    bytes: Annotated[int, Meta(ge=1, lt=1 << 48)]
    members: Annotated[tuple[PoolMember, ...], Meta(min_length=1, max_length=MAX_EXECUTORS)]


class Run(Struct, frozen=True, array_like=True):
    """What one executor of the instance runs here, and the part of the node that it may use."""

    executor: Name
    model: MaybeName = ""
    engine: Name = DEFAULT_ENGINE
    scheduler: RunScheduler | None = None
    stage: RunStage | None = None
    compute: Annotated[float, Meta(gt=0, le=1)] = 1.0
    devices: Annotated[tuple[Annotated[int, Meta(ge=0, lt=MAX_PARTS)], ...], Meta(max_length=MAX_PARTS)] = ()
    """Numbers of the node's devices; empty: all of them."""
    restarts: bool = False
    """When it dies it is started again, as others of its unit go on."""
    whole: RunWhole | None = None
    processors: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of the node's processors and memory; 0: `compute` is that too."""
    prefix_cache: bool = True
    """Prompts begin with KV blocks of those before them that began alike."""
    member: Annotated[int, Meta(ge=0, lt=MAX_EXECUTORS)] | None = None
    """Which member of the node's pool it is; None: it has a KV cache of its own."""
    speculation: Speculation | None = None
    """How its scheduler drafts answers; None: not at all."""

    @property
    def processor_share(self) -> float:
        return self.processors or self.compute


class Work(Struct, frozen=True, array_like=True, tag="unit_work"):
    """Work for one instance at most: a node serves no two."""

    instance: MaybeName = ""
    """Empty: nothing."""
    runs: Annotated[tuple[Run, ...], Meta(max_length=MAX_EXECUTORS)] = ()
    drain: bool = False
    """Finish the requests that are held, take no new ones."""
    slab_mib: Count = 0
    """Shared memory for tensors of its executors; 0: the node's own choice."""
    pool: Pool | None = None
    """It stays as it is told first, for as long as the instance runs here."""

    @property
    def of_one(self) -> "WorkOfOne | None":
        """The same for an agent of protocol 1; None: it cannot do it."""
        of = self.runs[0] if self.runs else Run(ONLY)
        if len(self.runs) > 1 or of.engine not in stage_engines() or of.compute < 1 or of.devices or of.restarts:
            return None
        return WorkOfOne(self.instance, of.model, of.engine, of.scheduler, of.stage, self.drain)


class WorkOfOne(Struct, frozen=True, array_like=True, tag="work"):
    """Work as protocol 1 has it: for an instance with one executor, which has all of the node."""

    instance: MaybeName = ""
    model: MaybeName = ""
    engine: Name = DEFAULT_ENGINE
    scheduler: RunScheduler | None = None
    stage: RunStage | None = None
    drain: bool = False

    @property
    def work(self) -> Work:
        only = Run(ONLY, self.model, self.engine, self.scheduler, self.stage)
        return Work(self.instance, (only,) if self.instance else (), self.drain)


ToNode = Work | WorkOfOne
