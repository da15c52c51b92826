"""A template's placement as it serves: scheduler and stage workers on nodes of the local cloud, under their quotas."""

import asyncio
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_gateway import Failed, Finished, ToGateway, Tokens
from agents.messages.to_scheduler import Generate, Leg, OtherLeg, Sampling
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from control.cloud.local.cgroup import processes
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kinds import LocalMachine
from control.cloud.node import CloudNodeState, NodeRequest
from control.hub.gang import chunk_tokens
from templates_lib.models.model_spec import ModelSpec
from templates_lib.models.weights_place import weights_path
from templates_lib.values.offer import Market
from templates_lib.values.placement import PipelinePlacement, Stage, StageNodes

BLOCK_TOKENS = 16
READY_S = 180.0
PREFILL_BATCH, DECODE_CHUNK = 64, 256
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


@dataclass(frozen=True)
class Instance:
    cloud: LocalCloud
    nodes: dict[str, str]
    """Name → kind."""
    address: Address
    gateway: KeyPair

    def cpu_s(self) -> dict[str, float]:
        """Node → processor seconds of its processes since they began."""
        found = {}
        for name in self.nodes:
            held = self.cloud.confinement(name)
            pids = {pid for group in (held.groups if held else ()) for pid in processes(Path(group))}
            found[name] = sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)
        return found

    def memory_mib(self) -> dict[str, int]:
        """Node and its kind → the most memory that its control group has held."""
        found = {}
        for name, kind in self.nodes.items():
            held = self.cloud.confinement(name)
            for group in map(Path, held.groups if held else ()):
                for file in ("memory.max_usage_in_bytes", "memory.peak"):
                    if (group / file).exists():
                        found[f"{name} ({kind})"] = int((group / file).read_text()) >> 20
        return found

    def check(self) -> None:
        """Raises RuntimeError with the last words of a node that has ended."""
        alive = {n.name for n in self.cloud.list({}, now()) if n.state is CloudNodeState.RUNNING}
        for name in self.nodes.keys() - alive:
            raise RuntimeError(f"{name} has ended: {self.cloud.log(name).read_text()[-800:]}")


@contextmanager
def instance(
    placement: PipelinePlacement, machines: Sequence[LocalMachine], model: ModelSpec, weights: str, home: Path
) -> Iterator[Instance]:
    """Its nodes are given back at the end, whatever happens."""
    cloud = LocalCloud(home / "cloud", [machine.kind for machine in machines])
    memory = {machine.name: machine.memory_mib for machine in machines}
    places = [
        (f"s{s}n{n}", stage, nodes)
        for s, stage in enumerate(placement.stages)
        for n, nodes in enumerate(one for one in stage.nodes for _ in range(one.count))
    ]
    keys = {name: KeyPair.generate() for name in ("scheduler", *(name for name, _, _ in places))}
    for name, pair in keys.items():
        pair.save(home / f"{name}.key")
    gateway, ports = KeyPair.generate(), free_ports(2)
    layout = PipelineLayout(
        model.id, tuple(_limits(places, stage) for stage in placement.stages), BLOCK_TOKENS, 2048, model.vocab_size
    )
    told = InstanceFile(
        layout, {gateway.public: "gateway"}, {keys[name].public: name for name, _, _ in places},
        *(f"tcp://127.0.0.1:{port}" for port in ports),
    )  # fmt: skip
    (home / "instance.json").write_bytes(msgspec.json.encode(told))
    checkpoint = weights_path(weights)
    scheduler = f"{sys.executable} -m agents.scheduler --instance {home}/instance.json --key {home}/scheduler.key"
    try:
        for number, (name, stage, nodes) in enumerate(places):
            kind = nodes.config.partition(":")[0]
            worker = (
                f"exec {sys.executable} -m agents.stage --scheduler tcp://127.0.0.1:{ports[1]} "
                f"--scheduler-key='{keys['scheduler'].public}' --key {home}/{name}.key --checkpoint {checkpoint} "
                f"--first-layer {stage.first_layer} --layers {stage.layers} --kv-blocks {nodes.kv_blocks} "
                f"--dtype {DTYPES[model.dtype]} --memory-mib {memory[kind]}"
            )
            # The scheduler runs on the first stage's node, and takes of its share.
            command = ("/bin/sh", "-c", worker if number else f"{scheduler} & {worker}")
            cloud.create(NodeRequest(name, "here", "here", kind, Market.ON_DEMAND, {}, command), now())
        kinds = {name: nodes.config.partition(":")[0] for name, _, nodes in places}
        yield Instance(cloud, kinds, Address(f"tcp://127.0.0.1:{ports[0]}", keys["scheduler"].public), gateway)
    finally:
        for name, _, _ in places:
            cloud.terminate(name, now())


class Load:
    """A gateway's end that keeps count of tokens. Make it on a running loop."""

    def __init__(self, served: Instance, model: str) -> None:
        self._served = served
        self._model = model
        self._attempts = 0
        self.first_s: dict[int, float] = {}
        self.ends_s: dict[int, float] = {}
        self.tokens: list[tuple[float, int]] = []
        """When how many came."""
        self._nobody = socket.create_server(("127.0.0.1", 0))
        """A decode leg that is never met: the requests that name it end with their first token."""
        self._nobodys_key = KeyPair.generate().public
        self._dialer: Dialer[ToGateway] = Dialer(served.address, served.gateway, "gateway", ToGateway, self)

    async def wait_up(self) -> None:
        """Until a first request has gone through."""
        await self._dialer.wait_up(READY_S)
        await self.until(self.send(1, 4, 2), READY_S)

    def send(self, requests: int, prompt_tokens: int, tokens: int) -> list[int]:
        """Their attempts. For one token they are prefill legs, as an instance that only prefills gets them."""
        attempts = list(range(self._attempts, self._attempts + requests))
        self._attempts += requests
        for attempt in attempts:
            prompt = tuple(1000 + (attempt * 37 + i) % 5000 for i in range(prompt_tokens))
            greedy = Sampling(0.0, 1.0, 0, 0)
            legs = (Leg.PREFILL, self._other(attempt)) if tokens == 1 else (Leg.WHOLE, None)
            self._dialer.send(Generate(attempt, "r", self._model, prompt, (), tokens, (), greedy, 3600.0, *legs))
        return attempts

    def _other(self, attempt: int) -> OtherLeg:
        endpoint = f"tcp://127.0.0.1:{self._nobody.getsockname()[1]}"
        return OtherLeg("nobody", endpoint, self._nobodys_key, f"{attempt}")

    async def until(self, attempts: Sequence[int], patience_s: float, first: bool = False) -> None:
        """All have ended, or with `first` have a token."""
        give_up, seen = time.monotonic() + patience_s, self.first_s if first else self.ends_s
        while not all(attempt in seen for attempt in attempts):
            self._served.check()
            if time.monotonic() > give_up:
                raise RuntimeError(f"{sum(a in seen for a in attempts)} of {len(attempts)} came in {patience_s:g} s")
            await asyncio.sleep(0.05)

    def close(self) -> None:
        self._dialer.close()
        self._nobody.close()

    def up(self) -> None:
        """Nothing is asked before `send`."""

    def down(self, reason: str) -> None:
        raise SystemExit(f"the scheduler is lost: {reason}")

    def received(self, message: ToGateway) -> None:
        at = time.perf_counter()
        if isinstance(message, Tokens):
            for run in message.runs:
                self.first_s.setdefault(run.attempt, at)
                self.tokens.append((at, len(run.ids)))
        elif isinstance(message, Finished):
            self.ends_s[message.attempt] = at
        elif isinstance(message, Failed):
            raise SystemExit(f"request {message.attempt} failed: {message}")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def now() -> datetime:
    return datetime.now(UTC)


def _limits(places: Sequence[tuple[str, Stage, StageNodes]], stage: Stage) -> tuple[NodeLimits, ...]:
    """A phase that a template was not made for has no limit of its own, as `control.hub.gang` has it."""
    return tuple(
        NodeLimits(
            name,
            nodes.weight,
            nodes.batch_cap or PREFILL_BATCH,
            chunk_tokens(stage, nodes) if nodes.chunk_tokens else DECODE_CHUNK,
            nodes.kv_blocks,
        )
        for name, of, nodes in places
        if of is stage
    )
