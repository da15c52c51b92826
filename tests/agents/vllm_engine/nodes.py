"""A node that serves a whole model with vLLM, in a process of its own."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agents.channels.keys import KeyPair
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from tests.conftest import VLLM_PYTHON

KV_BLOCKS = 48
"""Of 16 tokens, and half as many of vLLM's on a CPU."""


@dataclass
class VllmNode:
    folder: Path
    checkpoint: Path
    model: str
    vocabulary: int
    context_tokens: int
    gateway: KeyPair = field(default_factory=KeyPair.generate)
    options: tuple[str, ...] = ()
    asked_blocks: int = KV_BLOCKS
    batch_cap: int = 8
    chunk_tokens: int = 24
    dtype: str = "float32"
    python: Path = VLLM_PYTHON

    @property
    def kv_blocks(self) -> int:
        return self.asked_blocks // 2

    @property
    def peers(self) -> list[int]:
        return [1]

    @property
    def scheduler(self) -> "subprocess.Popen[str]":
        """Which is its only process, as the schedulers of other instances are the first of theirs."""
        return self.process

    @property
    def workers(self) -> dict[str, "subprocess.Popen[str]"]:
        return {}

    @property
    def log(self) -> str:
        return (self.folder / "vllm.log").read_text()

    def __enter__(self) -> "VllmNode":
        node = NodeLimits("node", 1.0, self.batch_cap, self.chunk_tokens, self.asked_blocks)
        layout = PipelineLayout(self.model, ((node,),), 16, self.context_tokens, self.vocabulary)
        told = InstanceFile(layout, {self.gateway.public: "gateway"}, {})
        (self.folder / "vllm.json").write_bytes(msgspec.json.encode(told))
        KeyPair.generate().save(self.folder / "vllm.key")
        command = [
            *(self.python, "-m", "agents.vllm_engine", "--instance", self.folder / "vllm.json"),
            *("--key", self.folder / "vllm.key", "--checkpoint", self.checkpoint, "--dtype", self.dtype),
            *("--converted", self.folder / "converted", *self.options),
        ]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        with (self.folder / "vllm.log").open("w") as log:
            self.process = subprocess.Popen(
                list(map(str, command)), stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        assert self.process.stdout is not None
        self.addresses = json.loads(self.process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
