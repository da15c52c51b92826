"""A process that holds one rank of a sharded stage and does what the first rank tells it."""

import signal
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch.distributed import FileStore, ProcessGroupGloo  # type: ignore[attr-defined]

from agents.engines.errors import EngineError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from agents.engines.torch_engine.expert_exchange import ExpertExchange
from agents.engines.torch_engine.shard import Ranks, shard_of, sum_over
from agents.engines.torch_engine.shard_commands import (
    Command,
    CommandFailed,
    Drop,
    Free,
    Loaded,
    Reserve,
    Step,
    commands,
    encode,
)
from agents.engines.torch_engine.shard_copies import ShardCopies
from agents.weights.errors import WeightsError
from agents.weights.source import open_checkpoint

_LAST_COPY_S = 2.0
_JOIN_S = 300.0


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """Replicas of a node that share their experts."""

    replica: int
    count: int
    store: Path
    """A file in which all their ranks find each other; it is there for this only once."""


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The same for all ranks of a stage."""

    checkpoint: Path
    held: LayerRange
    kv_blocks: int
    dtype: torch.dtype
    devices: tuple[torch.device, ...]
    """One a rank."""
    whole_experts: bool
    store: Path
    """A file in which the ranks find each other."""
    peer_timeout_s: float
    """A rank that answers no sum for as long is taken for dead."""
    threads: int
    """Of each rank, on a CPU."""
    memory_bytes: int | None
    """Of each device, for weights and KV cache; None: whatever it gives."""
    replicas: ReplicaPlan | None
    """Where the experts are spread over these, too."""

    @property
    def first_rank(self) -> int:
        """Among all ranks of all replicas."""
        return self.replicas.replica * len(self.devices) if self.replicas is not None else 0


def load_rank(plan: ShardPlan, rank: int) -> TorchEngine:
    """Joins the other ranks and loads this one's part."""
    checkpoint = open_checkpoint(plan.checkpoint)  # first: what every rank misses, each says for itself
    device = plan.devices[rank]
    group = _group(plan.store, rank, len(plan.devices), device, plan.peer_timeout_s)
    exchange = None
    if plan.replicas is not None:
        size = plan.replicas.count * len(plan.devices)
        every = _group(plan.replicas.store, plan.first_rank + rank, size, device, plan.peer_timeout_s)
        exchange = ExpertExchange(every.rank(), size, plan.replicas.count, sum_over(every), device)
    shard = shard_of(group, plan.whole_experts, exchange)
    return load_torch_engine(checkpoint, plan.held, plan.kv_blocks, plan.dtype, device, shard, plan.memory_bytes)


def _group(file: Path, rank: int, size: int, device: torch.device, timeout_s: float) -> Ranks:
    """gloo on the loopback interface, NCCL between GPUs; no default group, since stages come and go."""
    store = FileStore(str(file), size)
    store.set(f"rank {rank}", "here")
    try:  # a process may take longer to start than a rank may be silent later on
        store.wait([f"rank {other}" for other in range(size)], timedelta(seconds=_JOIN_S))
    except RuntimeError as error:
        raise EngineError(f"not all {size} ranks of the stage came within {_JOIN_S:.0f} s") from error
    timeout = timedelta(seconds=timeout_s)
    if device.type == "cuda":
        from torch.distributed import ProcessGroupNCCL

        torch.cuda.set_device(device)
        options = ProcessGroupNCCL.Options()
        options._timeout = timeout
        nccl: Ranks = ProcessGroupNCCL(store, rank, size, options)  # type: ignore[assignment]
        return nccl
    settings = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    settings._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    settings._timeout = timeout
    gloo: Ranks = ProcessGroupGloo(store, rank, size, settings)  # type: ignore[assignment]
    return gloo


def run_rank(plan: ShardPlan, rank: int, leader: Connection, copies: Connection) -> None:
    """Serves until the leader's ends of the pipes are closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the leader ends this process
    torch.set_num_threads(plan.threads)
    try:
        engine = load_rank(plan, rank)
    except (EngineError, WeightsError, ValueError, RuntimeError) as error:
        leader.send_bytes(encode(CommandFailed(str(error))))
        return
    copying = ShardCopies(engine, copies)
    leader.send_bytes(encode(Loaded(engine.facts.loaded_bytes)))
    while True:
        try:
            command = commands.decode(leader.recv_bytes())
        except EOFError:
            copying.join(_LAST_COPY_S)
            return
        # What is refused here is refused by the leader, whose own part holds the same requests.
        with suppress(EngineError):
            _obey(engine, command)
        copying.count_command()


def _obey(engine: TorchEngine, command: Command) -> None:
    match command:
        case Step(rows=rows):
            engine.step(command.whole_batch(), rows.tensor())
        case Free(request_id, kept):
            engine.free(request_id, kept)
        case Drop(blocks):
            engine.drop(blocks)
        case Reserve(request_id, tokens):
            engine.reserve(request_id, tokens)
