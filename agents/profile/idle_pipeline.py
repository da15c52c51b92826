"""A pipeline of idle engines in real processes: scheduler, workers, channels and edges as they serve."""

import asyncio
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
import torch

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_gateway import Finished, ToGateway
from agents.messages.to_scheduler import Generate, Sampling
from agents.profile.idle_engine import BLOCK_TOKENS, KV_BLOCKS, VOCABULARY, IdleEngine
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.stage.worker import StageWorker, WorkerSettings

_CHUNK_TOKENS = 512
_CONTEXT_TOKENS = 8192
_JOIN_S = 60.0
_MODEL = "idle"


@dataclass(frozen=True, slots=True)
class IdlePipeline:
    scheduler: psutil.Process
    workers: tuple[psutil.Process, ...]
    address: Address
    gateway: KeyPair

    @property
    def cpu_s(self) -> tuple[float, float]:
        """Return the processor seconds of the scheduler, and of all workers, since they began."""
        return _cpu_s(self.scheduler), sum(map(_cpu_s, self.workers))


@contextmanager
def idle_pipeline(
    stages: int, per_group: int, hidden_size: int, dtype: torch.dtype, folder: Path
) -> Iterator[IdlePipeline]:
    """Run a pipeline of idle engines. `folder`: for the files that its processes begin with."""
    *stage_keys, gateway, own = (KeyPair.generate() for _ in range(stages + 2))
    limits = [(NodeLimits(str(stage), 1.0, per_group, _CHUNK_TOKENS, KV_BLOCKS),) for stage in range(stages)]
    layout = PipelineLayout(_MODEL, tuple(limits), BLOCK_TOKENS, _CONTEXT_TOKENS, VOCABULARY)
    workers = {pair.public: str(stage) for stage, pair in enumerate(stage_keys)}
    (folder / "instance.json").write_bytes(
        msgspec.json.encode(InstanceFile(layout, {gateway.public: "gateway"}, workers))
    )
    own.save(folder / "key")
    command = [sys.executable, "-m", "agents.scheduler", "--instance", f"{folder}/instance.json", "--key"]
    with subprocess.Popen([*command, f"{folder}/key"], stdout=subprocess.PIPE, text=True) as scheduler:
        assert scheduler.stdout is not None  # noqa: S101 - it is a pipe
        at = json.loads(scheduler.stdout.readline())
        spawn = multiprocessing.get_context("spawn")
        address = Address(at["stages"], own.public)
        processes = [
            spawn.Process(target=_work, args=(stage, stages, hidden_size, dtype, address, pair), daemon=True)
            for stage, pair in enumerate(stage_keys)
        ]
        try:
            for process in processes:
                process.start()
            seen = tuple(psutil.Process(process.pid) for process in processes)
            yield IdlePipeline(psutil.Process(scheduler.pid), seen, Address(at["endpoint"], own.public), gateway)
        finally:
            scheduler.kill()
            for process in filter(lambda process: process.pid is not None, processes):
                process.kill()
                process.join()


class IdleClient:
    """A gateway's end that counts what ends. Make it on a running loop."""

    def __init__(self, pipeline: IdlePipeline) -> None:
        self._ended = self._wanted = 0
        self._done = asyncio.Event()
        self._attempts = 0
        self._dialer: Dialer[ToGateway] = Dialer(pipeline.address, pipeline.gateway, "gateway", ToGateway, self)

    async def wait_up(self) -> None:
        await self._dialer.wait_up(_JOIN_S)

    async def run(self, requests: int, prompt_tokens: int, tokens: int) -> None:
        """Sends so many requests at once; returns when all have ended."""
        self._ended, self._wanted = 0, requests
        self._done.clear()
        for _ in range(requests):
            self._attempts += 1
            prompt, greedy = (1,) * prompt_tokens, Sampling(0.0, 1.0, 0, 0)
            self._dialer.send(Generate(self._attempts, "r", _MODEL, prompt, (), tokens, (), greedy, 600.0))
        await self._done.wait()

    def close(self) -> None:
        self._dialer.close()

    def up(self) -> None:
        """Do nothing: nothing is asked before `run`."""

    def down(self, reason: str) -> None:
        raise SystemExit(f"the scheduler is lost: {reason}")

    def received(self, message: ToGateway) -> None:
        self._ended += isinstance(message, Finished)
        if self._ended >= self._wanted:
            self._done.set()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _work(stage: int, stages: int, hidden_size: int, dtype: torch.dtype, scheduler: Address, keys: KeyPair) -> None:
    async def serve() -> None:
        engine = IdleEngine(stage, stages, hidden_size, dtype)
        await StageWorker(engine, scheduler, keys, WorkerSettings("127.0.0.1", 60.0)).run()  # type: ignore[arg-type]

    torch.set_num_threads(1)
    asyncio.run(serve())
