"""Gap between the first and the second token of a request on two legs: KV cache streamed against sent when it is whole.

    python -m bench.hand_off_gap [--tokens 1024] [--runs 8] [--layer-ms 12]

Two prefill instances and a decode instance, each a process with the production scheduler and stage worker, and a paged
KV cache of an 8B model's shape in bf16 (32 layers, 128 KiB a token). Their engine computes nothing: a layer of a prompt
takes `--layer-ms`, a step of decoding 10 ms, as on a GPU, which leaves the processor to the sending. One prefill worker
says that it streams, the other does not, as one of the release before. Rounds of the two alternate.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import msgspec
import torch

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.engines.batch import StepBatch
from agents.engines.step_output import Sample, StepOutput
from agents.engines.torch_engine.engine import TorchEngine
from agents.messages.to_gateway import Failed, Finished, SchedulerState, Status, ToGateway, Tokens
from agents.messages.to_scheduler import AskStatus, Generate, Leg, OtherLeg, Sampling
from agents.messages.to_stage_scheduler import StageLoaded
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.server import InstanceScheduler
from agents.stage.worker import StageWorker, WorkerSettings
from bench.kv_hand_off import LAYERS, engine

STEP_S = 0.01
OUTPUT = 4
ANY_PORT = "tcp://127.0.0.1:0"
BAR = 0.5
"""Of the gap without streaming."""
PATIENCE_S = 120
PREFILL = ("streamed", "whole")
SLACK_TOKENS = 64
"""Room beside the prompt."""


class PacedLayers(TorchEngine):
    """Layers that take their time and compute nothing; the KV cache is a real one."""

    layer_s = 0.0

    def step(self, batch: StepBatch, _rows: torch.Tensor) -> StepOutput:
        self._cache.grow(batch)
        layer_s = self.layer_s if batch.tokens > len(batch.requests) else STEP_S / LAYERS
        for layer in range(LAYERS):
            time.sleep(layer_s)
            self.wrote(layer + 1)
        self._cache.advance(batch)
        return StepOutput(samples=tuple(Sample(r.id, 0, False) for r in batch.requests if r.sampling))


class WorkerBefore(StageWorker):
    """Does not say that it streams."""

    def _send(self, message: msgspec.Struct) -> None:
        if isinstance(message, StageLoaded):
            message = msgspec.structs.replace(message, streams_kv=False)
        super()._send(message)


def serve(
    keys: tuple[KeyPair, KeyPair], gateway: str, tokens: int, layer_s: float, streams: bool, told: Connection
) -> None:
    """One instance, until it is killed. `keys`: of its scheduler and its worker."""

    async def run() -> None:
        made = engine(tokens + SLACK_TOKENS, 3)
        paced = PacedLayers(made.facts, made._stage, made._cache)  # type: ignore[arg-type]
        paced.layer_s = layer_s
        layout = PipelineLayout("m", ((NodeLimits("node", 1.0, 4, tokens, made.facts.kv_blocks),),), 16, 2 * tokens, 1)
        workers = {keys[1].public: "node"}
        scheduler = InstanceScheduler(ANY_PORT, ANY_PORT, "127.0.0.1", keys[0], {gateway: "gateway"}, workers, layout)
        told.send(scheduler.endpoint)
        address = Address(scheduler.stages_endpoint, keys[0].public)
        await (StageWorker if streams else WorkerBefore)(
            paced, address, keys[1], WorkerSettings("127.0.0.1", 60.0)
        ).run()

    torch.set_num_threads(1)
    asyncio.run(run())


@dataclass
class Client:
    """What an instance answers, and when tokens come."""

    status: Status | None = None
    tokens_s: list[float] = field(default_factory=list)
    ended: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def up(self) -> None: ...

    def down(self, reason: str) -> None:
        raise SystemExit(f"an instance is lost: {reason}")

    def received(self, message: ToGateway) -> None:
        if isinstance(message, Tokens):
            self.tokens_s += [time.perf_counter()] * sum(len(run.ids) for run in message.runs)
        elif isinstance(message, Status):
            self.status = message
        elif isinstance(message, Failed):
            raise SystemExit(f"a request failed: {message}")
        elif isinstance(message, Finished):
            self.ended += 1
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


async def measure(
    places: dict[str, Address], gateway: KeyPair, tokens: int, runs: int
) -> dict[str, list[tuple[float, float]]]:
    """Seconds to the first token and from there to the second, by kind of prefill instance."""
    clients = {name: Client() for name in places}
    dialers: dict[str, Dialer[ToGateway]] = {
        name: Dialer(place, gateway, "gateway", ToGateway, clients[name]) for name, place in places.items()
    }
    for name, dialer in dialers.items():
        await dialer.wait_up(PATIENCE_S)
        client = clients[name]
        await client.until(lambda: client.status is not None and client.status.state is SchedulerState.READY)  # noqa: B023
        dialer.send(AskStatus())
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PREFILL}
    for run in range(runs + 1):
        for kind in PREFILL:
            legs = {}
            for name in (kind, "decode"):
                status = clients[name].status
                endpoint = status.hand_off if status is not None else None
                assert endpoint is not None, "it takes no part in hand-offs"
                legs[name] = OtherLeg(name, endpoint, places[name].public_key, f"{kind} {run}")
                clients[name].tokens_s.clear()
                clients[name].ended = 0
            start_s = time.perf_counter()
            for name, leg, other in ((kind, Leg.PREFILL, "decode"), ("decode", Leg.DECODE, kind)):
                attempt = run * len(PREFILL) + PREFILL.index(kind)
                sampling = Sampling(0.0, 1.0, 0, 0)
                asked = Generate(attempt, "r", "m", (0,) * tokens, (), OUTPUT, (), sampling, 600.0, leg, legs[other])
                dialers[name].send(asked)
            for name in (kind, "decode"):
                client = clients[name]
                await client.until(lambda: client.ended == 1)  # noqa: B023
            first_s, second_s = clients[kind].tokens_s[0], clients["decode"].tokens_s[0]
            if run:  # the first warms up
                found[kind].append((first_s - start_s, second_s - first_s))
    for dialer in dialers.values():
        dialer.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1024, help="of the prompt")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--layer-ms", type=float, default=12.0, help="of a layer of the prompt")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    gateway = KeyPair.generate()
    places, processes = {}, []
    for name in (*PREFILL, "decode"):
        keys = KeyPair.generate(), KeyPair.generate()
        tell, told = context.Pipe()
        what = (keys, gateway.public, arguments.tokens, arguments.layer_ms / 1000, name != "whole", told)
        processes.append(context.Process(target=serve, args=what, daemon=True))
        processes[-1].start()
        places[name] = Address(tell.recv(), keys[0].public)
    try:
        found = asyncio.run(measure(places, gateway, arguments.tokens, arguments.runs))
    finally:
        for process in processes:
            process.kill()
    gaps = {}
    for kind, times in found.items():
        first_ms, gaps[kind] = (1000 * statistics.median(each) for each in zip(*times, strict=True))
        print(f"{kind}: the first token after {first_ms:.0f} ms, the second {gaps[kind]:.1f} ms later; a step takes 10")
    ratio = gaps["streamed"] / gaps["whole"]
    print(f"gap with streaming: {ratio:.2f} of the one without (bar {BAR})")
    return int(ratio > BAR)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
