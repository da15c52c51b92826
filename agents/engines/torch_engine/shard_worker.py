"""A process that holds one rank of a sharded stage and does what the first rank tells it."""

import signal
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch.distributed import FileStore, ProcessGroupGloo  # type: ignore[attr-defined]

from agents.engines.errors import EngineError
from agents.engines.kv_part import empty_part
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from agents.engines.torch_engine.shard import Ranks, shard_of
from agents.engines.torch_engine.shard_commands import (
    Command,
    ExportKv,
    Failed,
    Free,
    ImportKv,
    Loaded,
    Reserve,
    Rows,
    Step,
    commands,
    encode,
)
from agents.weights.errors import WeightsError
from agents.weights.source import open_checkpoint


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


def load_rank(plan: ShardPlan, rank: int) -> TorchEngine:
    """Joins the other ranks and loads this one's part."""
    group = _group(plan, rank)
    shard = shard_of(group, plan.whole_experts)
    checkpoint = open_checkpoint(plan.checkpoint)
    return load_torch_engine(checkpoint, plan.held, plan.kv_blocks, plan.dtype, plan.devices[rank], shard)


def _group(plan: ShardPlan, rank: int) -> Ranks:
    """gloo on the loopback interface, NCCL between GPUs; no default group, since stages come and go."""
    store = FileStore(str(plan.store), len(plan.devices))
    timeout = timedelta(seconds=plan.peer_timeout_s)
    if plan.devices[rank].type == "cuda":
        from torch.distributed import ProcessGroupNCCL

        torch.cuda.set_device(plan.devices[rank])
        options = ProcessGroupNCCL.Options()
        options._timeout = timeout
        nccl: Ranks = ProcessGroupNCCL(store, rank, len(plan.devices), options)  # type: ignore[assignment]
        return nccl
    settings = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    settings._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    settings._timeout = timeout
    gloo: Ranks = ProcessGroupGloo(store, rank, len(plan.devices), settings)  # type: ignore[assignment]
    return gloo


def run_rank(plan: ShardPlan, rank: int, leader: Connection) -> None:
    """Serves until the leader's end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the leader ends this process
    torch.set_num_threads(plan.threads)
    try:
        engine = load_rank(plan, rank)
    except (EngineError, WeightsError, ValueError, RuntimeError) as error:
        leader.send_bytes(encode(Failed(str(error))))
        return
    leader.send_bytes(encode(Loaded(engine.facts.loaded_bytes)))
    while True:
        try:
            command = commands.decode(leader.recv_bytes())
        except EOFError:
            return
        try:
            answer = _obey(engine, command)
        except EngineError:
            continue  # the leader's own part holds the same requests, so it raises the same
        if answer is not None:
            leader.send_bytes(encode(answer))


def _obey(engine: TorchEngine, command: Command) -> Rows | None:
    match command:
        case Step(batch, rows):
            engine.step(batch, rows.tensor())
        case Free(request_id):
            engine.free(request_id)
        case Reserve(request_id, tokens):
            engine.reserve(request_id, tokens)
        case ExportKv(request_id, part):
            exported = empty_part(part, engine.facts)
            engine.export_kv(request_id, part, exported)
            return Rows.of(exported)
        case ImportKv(request_id, part, rows):
            engine.import_kv(request_id, part, rows.tensor())
    return None
