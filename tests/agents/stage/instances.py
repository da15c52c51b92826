"""An instance in real processes: a scheduler, its stage workers, and a gateway's end of the channel to it."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_gateway import Failed, Finished, Status, ToGateway, Tokens
from agents.messages.to_node import RunStage
from agents.node.settings import NodeSettings
from agents.node.worker_commands import worker_commands
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from templates_lib.values.speculation import Speculation
from tests.agents.channels.channel_ends import Seen
from tests.agents.engines.pipelines import DEVICE
from tests.agents.engines.tiny_models import VOCABULARY
from tests.conftest import VLLM_PYTHON
from tests.forked import Forked

KV_BLOCKS = 24
PATIENCE_S = 240.0
"""Workers start meanwhile: one with vLLM reads several GB of libraries, which a busy machine has to fetch first."""


@dataclass(frozen=True)
class Split:
    """Of a node over its devices."""

    tp: int = 1
    dp: int = 1
    pp: int = 1
    whole_experts: bool = False
    joint: bool = False
    """Experts are spread over all replicas."""


@dataclass
class Instance:
    """`layers` of each stage, and the weights of its nodes."""

    folder: Path
    checkpoint: Path | str
    """Where it lies, or `hf:ORG/NAME`."""
    layers: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...]
    gateway: KeyPair = field(default_factory=KeyPair.generate)
    worker_options: tuple[str, ...] = ()
    model: str = "tiny"
    vocabulary: int = VOCABULARY
    context_tokens: int = 256
    kv_blocks: int = KV_BLOCKS
    engines: dict[str, str] = field(default_factory=dict)
    """Of nodes, by name; torch where nothing is said."""
    splits: dict[str, Split] = field(default_factory=dict)
    """Of nodes, by name: each of one worker on one device where nothing is said."""
    workers: dict[str, "subprocess.Popen[str] | Forked"] = field(default_factory=dict)
    pool: tuple[Path, int] | None = None
    """Socket of a KV cache that models share, and which of them this is; None: it has its own."""
    fault: tuple[str, Path] | None = None
    """What the engines have in their next step once a file is there (`faulty_stage`), and the file."""
    speculation: Speculation | None = None
    is_patient: bool = False
    """Whether its scheduler gives up no worker for its silence (`patient_scheduler`)."""

    def __enter__(self) -> "Instance":
        names = [[f"{s}.{n}" for n in range(len(stage))] for s, stage in enumerate(self.weights)]
        keys = {name: KeyPair.generate() for name in (*(n for stage in names for n in stage), "scheduler")}
        for name, pair in keys.items():
            pair.save(self.folder / f"{name}.key")
        stages = tuple(
            tuple(limits for name, weight in zip(*stage, strict=True) for limits in self._limits(name, weight))
            for stage in zip(names, self.weights, strict=True)
        )
        workers = {pair.public: name for name, pair in keys.items() if name != "scheduler"}
        told = InstanceFile(
            PipelineLayout(self.model, stages, 16, self.context_tokens, self.vocabulary),
            {self.gateway.public: "gateway"},
            workers,
            **({} if self.pool is None else {"pool": str(self.pool[0]), "member": self.pool[1]}),
            speculation=self.speculation,
        )
        (self.folder / "instance.json").write_bytes(msgspec.json.encode(told))
        self.scheduler = self._start("scheduler", "--instance", self.folder / "instance.json")
        assert self.scheduler.stdout is not None
        self.addresses = json.loads(self.scheduler.stdout.readline())
        firsts = (0, *accumulate(self.layers))
        for stage, (first, layers) in enumerate(zip(firsts, self.layers, strict=False)):
            for name in names[stage]:
                if name in self.splits:
                    self._start_split(name, self.splits[name], first, layers)
                else:
                    self.workers[name] = self._start_worker(name, first, layers)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.scheduler, *self.workers.values()):
            process.kill()
            process.communicate()

    @property
    def peers(self) -> list[int]:
        """How many each stage has, replicas inside nodes included."""
        return [
            sum(self.splits.get(f"{stage}.{node}", Split()).dp for node in range(len(nodes)))
            for stage, nodes in enumerate(self.weights)
        ]

    def ended(self, but: str = "") -> dict[str, int]:
        """Exit statuses, once all processes `but` one have ended by themselves."""
        processes = {"scheduler": self.scheduler, **self.workers}
        return {name: process.wait(PATIENCE_S) for name, process in processes.items() if name != but}

    def _start(self, name: str, *arguments: object) -> "subprocess.Popen[str] | Forked":
        stage = ("agents.stage",) if self.fault is None else ("tests.agents.stage.faulty_stage", *self.fault)
        scheduler = "tests.agents.stage.patient_scheduler" if self.is_patient else "agents.scheduler"
        module = (scheduler,) if name == "scheduler" else stage
        python = VLLM_PYTHON if self.engines.get(name) == "vllm-stage" else sys.executable
        return _started((python, "-m", *module, "--key", self.folder / f"{name}.key", *arguments))

    def _limits(self, name: str, weight: float) -> list[NodeLimits]:
        split = self.splits.get(name, Split())
        limits = (weight / split.dp, 4, 16, self.kv_blocks, split.pp)
        return [NodeLimits(name, *limits, replica, split.joint) for replica in range(split.dp)]

    def _start_split(self, name: str, split: Split, first: int, layers: int) -> None:
        """As its node agent would; its workers are called `NODE/0` and so on."""
        at, key = self.addresses["stages"], self.addresses["public_key"]
        held = (f"path:{self.checkpoint}", first, layers, self.kv_blocks, "float32", 0)
        engine = self.engines.get(name, "torch")
        run = RunStage(at, key, *held, split.tp, split.whole_experts or split.joint, split.dp, split.pp, split.joint)
        settings = NodeSettings(self.folder, Address(at, key), pythons={"vllm-stage": VLLM_PYTHON})
        meeting = self.folder / f"{name}.meeting"
        meeting.mkdir()
        commands = worker_commands(engine, run, self.folder / f"{name}.key", settings, meeting)
        for number, command in enumerate(commands):
            self.workers[f"{name}/{number}"] = _started((*command.arguments, *self.worker_options))

    def _start_worker(self, name: str, first: int, layers: int) -> "subprocess.Popen[str] | Forked":
        at = ("--scheduler", self.addresses["stages"], f"--scheduler-key={self.addresses['public_key']}")
        held = ("--checkpoint", self.checkpoint, "--first-layer", first, "--layers", layers)
        engine = self.engines.get(name, "torch")
        cache = ("--kv-blocks", self.kv_blocks, "--dtype", "float32")
        device = () if "--device" in self.worker_options else ("--device", DEVICE)
        shared = () if self.pool is None else ("--pool", self.pool[0], "--member", self.pool[1])
        return self._start(name, *at, "--engine", engine, *held, *cache, *device, *shared, *self.worker_options)


def _started(command: tuple[object, ...]) -> "subprocess.Popen[str] | Forked":
    python, _, module, *arguments = map(str, command)
    if python == sys.executable:
        return Forked(module, arguments, stdout=subprocess.PIPE)
    return subprocess.Popen((python, "-m", module, *arguments), stdout=subprocess.PIPE, text=True)


class Gateway:
    """A gateway's end: what it heard, by attempt."""

    def __init__(self, instance: Instance) -> None:
        self.seen = Seen()
        address = Address(instance.addresses["endpoint"], instance.addresses["public_key"])
        self.dialer: Dialer[ToGateway] = Dialer(address, instance.gateway, "gateway", ToGateway, self.seen)

    async def __aenter__(self) -> "Gateway":
        await self.dialer.wait_up(PATIENCE_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.dialer.close()

    def send(self, *messages: msgspec.Struct) -> None:
        for message in messages:
            self.dialer.send(message)

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.seen.messages if isinstance(message, kind)]

    def ends(self) -> dict[int, Finished | Failed]:
        return {message.attempt: message for message in (*self.of(Finished), *self.of(Failed))}

    def tokens(self, attempt: int) -> list[int]:
        """In order; a repeat or a gap fails."""
        runs = [run for message in self.of(Tokens) for run in message.runs if run.attempt == attempt]
        for one, next_one in pairwise(runs):
            assert next_one.seq == one.seq + len(one.ids)
        return [token for run in runs for token in run.ids]

    def status(self) -> Status:
        return self.of(Status)[-1]

    async def until(self, condition: Any) -> None:
        await self.seen.until(condition, PATIENCE_S)


def play(instance: Instance, scenario: Any) -> None:
    async def main() -> None:
        async with Gateway(instance) as gateway:
            await scenario(gateway)

    asyncio.run(main())
