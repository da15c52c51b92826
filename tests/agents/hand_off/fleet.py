"""Prefill and decode instances in real processes, a real gateway before them, and a client that sees token ids."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
from openai import OpenAI
from tokenizers import Tokenizer, decoders, models

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.messages.to_gateway import Stats, ToGateway
from agents.messages.to_scheduler import AskStats, Sampling
from bench.text_tables import DECODE, PREFILL, member, text_model
from control.gateway.published import Published, PublishedModel, write_published
from templates_lib.values.speculation import Speculation
from tests.agents.channels.channel_ends import Seen
from tests.agents.engines.tiny_models import VOCABULARY
from tests.agents.stage.instances import Instance
from tests.agents.vllm_engine.nodes import VllmNode
from tests.control.gateway.world import Process, World

MODEL = "tiny"
Cut = tuple[tuple[int, ...], tuple[tuple[float, ...], ...]]
"""Layers of each stage, and the weights of its nodes."""
KV_BLOCKS = 64
"""Of a node: room for ten requests and not for 64."""
QUICK = ("--heartbeat-s", "0.2", "--lost-after-s", "60")
"""A gateway that soon hears what instances do, and takes none for lost that a busy machine lets wait: one that is
killed hangs up."""


class Fleet(World):
    """Instances by name; `legs` says what each does."""

    def __init__(self, folder: Path, checkpoint: Path) -> None:
        super().__init__(folder)
        self.checkpoint = checkpoint
        self.tokenizer = folder / "tokenizer"
        self.instances: dict[str, Instance | VllmNode] = {}
        self._opened = ExitStack()
        self._client: OpenAI | None = None

    def add(self, name: str, leg: str, cut: Cut, **options: Any) -> Instance:
        folder = self.folder / name
        folder.mkdir()
        instance = Instance(folder, self.checkpoint, *cut, gateway=self.keys, **{"kv_blocks": KV_BLOCKS, **options})
        self.instances[name] = self._opened.enter_context(instance)
        self.legs[name] = ("z1", leg)
        return instance

    def add_vllm(self, name: str, leg: str, *options: str, **more: Any) -> VllmNode:
        folder = self.folder / name
        folder.mkdir()
        node = VllmNode(folder, self.checkpoint, MODEL, VOCABULARY, 256, gateway=self.keys, options=options, **more)
        self.instances[name] = self._opened.enter_context(node)
        self.legs[name] = ("z1", leg)
        return node

    def publish(self, *instances: str) -> None:
        self.version += 1
        names = instances or tuple(self.instances)
        routed = text_model(MODEL, [member(MODEL, name, *self.legs[name], 1e6) for name in names])
        said = {name: self.instances[name].addresses for name in names}
        addresses = {name: Address(at["endpoint"], at["public_key"]) for name, at in said.items()}
        served = PublishedModel(routed, str(self.tokenizer), 256, 1_700_000_000)
        write_published(self.folder / "table.json", Published(self.version, addresses, (served,)))

    def pair(self, prefill: str, decode: str) -> None:
        """Have requests go to these two, one for each leg, and nowhere else."""
        self.legs |= {prefill: ("z1", PREFILL), decode: ("z1", DECODE)}
        self.publish(prefill, decode)
        self.wait_for("medley_gateway_table_version", self.version)
        for name in (prefill, decode):
            self.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 1.0, timeout_s=240)

    def ask(self, prompt: list[int], tokens: int, sampling: Sampling) -> "Stream":
        chosen = {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed}
        return self.stream(prompt, tokens, **chosen, extra_body={"top_k": sampling.top_k})

    def start_gateway(self, *arguments: str) -> None:
        id_tokenizer(self.folder / "tokenizer")
        self.keys.save(self.folder / "gateway.key")
        at = ["--port", "0", "--table", str(self.folder / "table.json"), "--key", str(self.folder / "gateway.key")]
        self.gateway = Process("control.gateway", [*at, *arguments], self.folder / "gateway.log")
        for name in self.instances:  # a dozen processes that load torch, on two busy cores
            self.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 1.0, timeout_s=240)

    def stream(self, prompt: list[int], tokens: int, **options: Any) -> "Stream":
        if self._client is None:
            self._client = self.client(timeout=600)
        return Stream(self._client, prompt, tokens, options)

    def tell(self, name: str, message: msgspec.Struct, is_answer: Callable[[Any], bool]) -> Any:
        """What the scheduler of an instance answers to a gateway's message."""

        async def talk() -> Any:
            seen, at = Seen(), self.instances[name].addresses
            address = Address(at["endpoint"], at["public_key"])
            dialer: Dialer[ToGateway] = Dialer(address, self.keys, "gateway", ToGateway, seen)
            await dialer.wait_up(120)
            dialer.send(message)
            await seen.until(lambda: any(map(is_answer, seen.messages)), 120)
            dialer.close()
            return next(filter(is_answer, seen.messages))

        return asyncio.run(talk())

    def stats(self, name: str) -> Stats:
        return self.tell(name, AskStats(), lambda answer: isinstance(answer, Stats))

    def stats_until(self, name: str, condition: Callable[[Stats], bool]) -> Stats:
        """Workers say at each heartbeat what they have done, and the other leg of a request when it has it."""
        deadline_s = time.monotonic() + 120
        while not condition(stats := self.stats(name)):
            assert time.monotonic() < deadline_s, stats
        return stats

    def wait_idle(self, *names: str) -> None:
        """Nothing runs and no KV block is held."""
        for name in names or tuple(self.instances):
            self.wait_for(f'medley_gateway_instance_running{{instance="{name}"}}', 0)
            self.wait_for(f'medley_gateway_instance_waiting{{instance="{name}"}}', 0)
            blocks = float(self.instances[name].kv_blocks * min(self.instances[name].peers))
            self.wait_for(f'medley_gateway_instance_kv_blocks_free{{instance="{name}"}}', blocks)

    def links(self, source: str, target: str) -> set[tuple[int, int]]:
        """Ports of the connections that processes of one instance have with those of the other."""
        ours, theirs = (
            {
                (connection.laddr.port, connection.raddr.port)
                for process in (self.instances[name].scheduler, *self.instances[name].workers.values())
                for connection in psutil.Process(process.pid).net_connections("tcp")
                if connection.status == psutil.CONN_ESTABLISHED
            }
            for name in (source, target)
        )
        return {(local, remote) for local, remote in ours if (remote, local) in theirs}

    def stop(self) -> None:
        super().stop()
        self._opened.close()


class Stream:
    """One streamed completion, read on a thread of its own."""

    def __init__(self, client: OpenAI, prompt: list[int], tokens: int, options: dict[str, Any]) -> None:
        self.tokens: list[int] = []
        self.reason = ""
        self.error: Exception | None = None
        self._enough = threading.Condition()
        self._is_over = False
        self._is_cancelled = False
        self._options = {"temperature": 0, "model": MODEL, **options, "prompt": prompt, "max_tokens": tokens}
        self._thread = threading.Thread(target=self._read, args=(client,), daemon=True)
        self._thread.start()

    def wait(self, tokens: int) -> "Stream":
        """Until so many tokens came, or it has ended."""
        with self._enough:
            assert self._enough.wait_for(lambda: len(self.tokens) >= tokens or self._is_over, 240)
        return self

    def end(self) -> list[int]:
        self._thread.join(600)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.tokens

    def cancel(self) -> None:
        self._is_cancelled = True

    def _read(self, client: OpenAI) -> None:
        try:
            with client.completions.create(stream=True, **self._options) as chunks:
                for chunk in chunks:
                    with self._enough:
                        self.tokens += [int(n) for n in re.findall(r"\[(\d+)\]", chunk.choices[0].text)]
                        self.reason = chunk.choices[0].finish_reason or self.reason
                        self._enough.notify_all()
                    if self._is_cancelled:
                        break
        except Exception as error:
            self.error = error
        with self._enough:
            self._is_over = True
            self._enough.notify_all()


def id_tokenizer(folder: Path) -> None:
    """Token 7 is the text `[7]`: what a client reads says which tokens it got."""
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({f"[{n}]": n for n in range(VOCABULARY)}, "[0]"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))


@contextmanager
def fleet_of(
    folder: Path, checkpoint: Path, instances: dict[str, tuple[str, Cut]], *gateway: str, **options: Any
) -> Iterator[Fleet]:
    """Name → leg and cut; ready. Answers are drafted where places are free. `options`: of all instances."""
    fleet = Fleet(folder, checkpoint)
    try:
        for name, (leg, cut) in instances.items():
            fleet.add(name, leg, cut, speculation=Speculation(1, 4), **options)
        fleet.publish()
        fleet.start_gateway(*gateway)
        yield fleet
    finally:
        fleet.stop()
