"""Node messages as the release before has them: copied, and never to be changed."""

from msgspec import Struct


class OldShare(Struct, frozen=True, array_like=True):
    name: str
    weight: float
    batch_cap: int
    chunk_tokens: int
    kv_blocks: int
    parts: int = 1
    replica: int = 0
    joint: bool = False


class OldRunScheduler(Struct, frozen=True, array_like=True):
    stages: tuple[tuple[OldShare, ...], ...]
    block_tokens: int
    max_context_tokens: int
    vocab_size: int
    gateways: dict[str, str]
    workers: dict[str, str]


class OldRunStage(Struct, frozen=True, array_like=True):
    scheduler: str
    scheduler_key: str
    weights: str
    first_layer: int
    layers: int
    kv_blocks: int
    dtype: str
    memory_mib: int
    shards: int = 1
    whole_experts: bool = False
    replicas: int = 1
    parts: int = 1
    joint: bool = False


class OldWork(Struct, frozen=True, array_like=True, tag="work"):
    instance: str = ""
    model: str = ""
    engine: str = "torch"
    scheduler: OldRunScheduler | None = None
    stage: OldRunStage | None = None
    drain: bool = False


class OldStatus(Struct, frozen=True, array_like=True, tag="status"):
    state: str
    running: int
    waiting: int
    kv_blocks: int
    kv_blocks_free: int


class OldSchedulerReport(Struct, frozen=True, array_like=True):
    endpoint: str
    stages: str
    public_key: str
    status: OldStatus | None = None


class OldStageReport(Struct, frozen=True, array_like=True):
    running_s: float
    memory_mib: int
    cpu_share: float


class OldNodeReport(Struct, frozen=True, array_like=True, tag="node_report"):
    instance: str
    scheduler: OldSchedulerReport | None = None
    stage: OldStageReport | None = None
    failure: str = ""
    metrics: str = ""
