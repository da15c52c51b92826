"""What a pipeline of three stages costs beside computing: real processes, channels and edges, idle engines.

    python -m bench.pipeline_overhead [--runs 3]

One request: milliseconds from token to token, which is one pass of a group through scheduler, three workers and back.
Full groups: milliseconds of the whole instance for each step of a group, with three groups under way.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import torch

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.engines.batch import StepBatch
from agents.engines.layer_range import LayerRange
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import Sample, StepOutput
from agents.messages.to_gateway import Finished, ToGateway
from agents.messages.to_scheduler import Generate, Sampling
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.stage.worker import StageWorker, WorkerSettings

STAGES, HIDDEN, BLOCKS, TOKENS, PER_GROUP = 3, 4096, 100_000, 300, 16
BAR_MS = 2.0
"""A decode step of one request (issue: at most 2 ms with a zero-compute engine)."""


class IdleEngine:
    """The part of a StageEngine that a worker uses, without a model: rows come and go, every sample is token 5."""

    def __init__(self, stage: int) -> None:
        held = LayerRange(stage, 1, first=stage == 0, last=stage == STAGES - 1)
        self.facts = StageFacts(
            engine="idle",
            held=held,
            model_layers=STAGES,
            hidden_size=HIDDEN,
            vocab_size=100,
            max_context_tokens=0,
            dtype=torch.bfloat16,
            device=torch.device("cpu"),
            first_kv_head=0,
            kv_heads=1,
            head_dim=1,
            block_tokens=16,
            kv_blocks=BLOCKS,
            stop_token_ids=(),
            loaded_bytes=0,
            load_s=0.0,
        )
        self._hidden = torch.zeros(8192, HIDDEN, dtype=torch.bfloat16)

    def step(self, batch: StepBatch, _rows: torch.Tensor) -> StepOutput:
        if not self.facts.held.last:
            return StepOutput(hidden=self._hidden[: batch.tokens])
        return StepOutput(samples=tuple(Sample(r.id, 5, False) for r in batch.requests if r.sampling))

    def free(self, request_id: str) -> None:
        """Nothing is held."""


def work(stage: int, scheduler: Address, keys: KeyPair) -> None:
    async def serve() -> None:
        await StageWorker(IdleEngine(stage), scheduler, keys, WorkerSettings("127.0.0.1", 60.0)).run()

    torch.set_num_threads(1)
    asyncio.run(serve())


class Client:
    """Counts what ends."""

    def __init__(self) -> None:
        self.ended = 0
        self.done = asyncio.Event()
        self.wanted = 0

    def up(self) -> None: ...

    def down(self, reason: str) -> None:
        raise SystemExit(f"the scheduler is lost: {reason}")

    def received(self, message: ToGateway) -> None:
        self.ended += isinstance(message, Finished)
        if self.ended >= self.wanted:
            self.done.set()


async def measure(address: Address, keys: KeyPair, runs: int) -> tuple[list[float], list[float]]:
    """Milliseconds a step: of one request, and of full groups."""
    client = Client()
    dialer: Dialer[ToGateway] = Dialer(address, keys, "gateway", ToGateway, client)
    await dialer.wait_up(30)
    attempts = iter(range(1 << 30))

    async def step_ms(requests: int, steps: int) -> float:
        client.ended, client.wanted = 0, requests
        client.done.clear()
        start = time.perf_counter()
        for attempt in (next(attempts) for _ in range(requests)):
            dialer.send(Generate(attempt, "r", "m", (1, 2, 3), (), TOKENS, (), Sampling(0.0, 1.0, 0, 0), 600.0))
        await client.done.wait()
        return (time.perf_counter() - start) * 1000 / steps

    await step_ms(1, TOKENS)
    alone = [await step_ms(1, TOKENS) for _ in range(runs)]
    full = [await step_ms(STAGES * PER_GROUP, STAGES * TOKENS) for _ in range(runs)]
    dialer.close()
    return alone, full


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    keys = [KeyPair.generate() for _ in range(STAGES + 2)]
    *stage_keys, gateway, own = keys
    stages = tuple((NodeLimits(str(stage), 1.0, PER_GROUP, 2048, BLOCKS),) for stage in range(STAGES))
    workers = {pair.public: str(stage) for stage, pair in enumerate(stage_keys)}
    told = InstanceFile(PipelineLayout("m", stages, 16, 8192, 100), {gateway.public: "gateway"}, workers)
    with tempfile.TemporaryDirectory() as folder:
        own.save(Path(folder) / "key")
        (Path(folder) / "instance.json").write_bytes(msgspec.json.encode(told))
        command = [sys.executable, "-m", "agents.scheduler", "--instance", f"{folder}/instance.json", "--key"]
        with subprocess.Popen([*command, f"{folder}/key"], stdout=subprocess.PIPE, text=True) as scheduler:
            assert scheduler.stdout is not None
            at = json.loads(scheduler.stdout.readline())
            spawn = multiprocessing.get_context("spawn")
            places = [(stage, Address(at["stages"], own.public), pair) for stage, pair in enumerate(stage_keys)]
            processes = [spawn.Process(target=work, args=place, daemon=True) for place in places]
            for process in processes:
                process.start()
            alone, full = asyncio.run(measure(Address(at["endpoint"], own.public), gateway, runs))
            scheduler.terminate()
            for process in processes:
                process.join(10)
    one, many = statistics.median(alone), statistics.median(full)
    print(f"one request: {one:.2f} ms a step (bar {BAR_MS:g}), {PER_GROUP} requests a group: {many:.2f} ms a step")
    return int(one > BAR_MS)


if __name__ == "__main__":
    sys.exit(main())
