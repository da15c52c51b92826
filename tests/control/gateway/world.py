"""A world of real processes: echo schedulers, a gateway, and the routing table between them."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from bench.text_tables import WHOLE, member, text_model
from control.gateway.published import AccessKey, Published, PublishedModel, write_published
from policies.routing_table import ZoneFlow
from tests.forked import Forked

SECRET = "5ec2e7" * 10 + "0000"
API_KEY = f"medley_0123456789ab_{SECRET}"
MODEL = "echo-1"


def byte_tokenizer(folder: Path) -> Path:
    """One token per byte and no merges: text and tokens can be compared by eye."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: n for n, text in enumerate([*alphabet, "<end>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}\n{% endfor %}"
    config = {"eos_token": "<end>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@dataclass
class Process:
    """A child that says where it is in its first line of output, and logs to a file."""

    module: str
    arguments: list[str]
    log: Path
    child: Forked = field(init=False)
    said: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        with self.log.open("w") as log:
            self.child = Forked(self.module, self.arguments, stdout=subprocess.PIPE, stderr=log)
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line, f"{self.module} did not start: {self.log.read_text()}"
        self.said = json.loads(line)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.child.poll() is None:
            self.child.send_signal(number)
        code = self.child.wait(timeout=60)
        assert self.child.stdout is not None
        self.child.stdout.close()
        return code


@dataclass
class World:
    folder: Path
    keys: KeyPair = field(default_factory=KeyPair.generate)
    echoes: dict[str, Process] = field(default_factory=dict)
    legs: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Instance → (zone, leg)."""
    flows: tuple[ZoneFlow, ...] = ()
    gateway: Process | None = None
    model: dict[str, Any] = field(default_factory=dict)
    """What differs from the usual served model."""
    key: dict[str, Any] = field(default_factory=dict)
    """What differs from the usual key."""
    desk: Address | None = None
    """Who is told what load comes."""
    policy: str = "wrr-v1"
    rate: float = 1e9
    """Units per second that the table says each instance does of its leg."""
    version: int = 0

    @property
    def url(self) -> str:
        assert self.gateway is not None
        return str(self.gateway.said["url"])

    @property
    def gateway_log(self) -> str:
        return (self.folder / "gateway.log").read_text()

    def echo(self, name: str, *arguments: str, zone: str = "z1", leg: str = WHOLE) -> Process:
        key = self.folder / f"{name}.key"
        allow = f"gateway={self.keys.public}"
        process = Process("agents.echo", ["--key", str(key), "--allow", allow, *arguments], self.folder / f"{name}.log")
        self.echoes[name] = process
        self.legs[name] = (zone, leg)
        return process

    def publish(self, *instances: str, longer: str = "") -> None:
        """Write the table with these instances (all, when none is named); `longer` serves long prompts."""
        self.version += 1
        names = instances or tuple(self.echoes)
        said = {name: self.echoes[name].said for name in names}
        routed = [member(MODEL, name, *self.legs[name], self.rate) for name in names]
        served = PublishedModel(
            replace(text_model(MODEL, routed, self.flows), policy=self.policy),
            tokenizer=str(self.folder / "tokenizer"),
            context_tokens=20_000,
            created=1_700_000_000,
            max_top_logprobs=5,
        )
        published = Published(
            self.version,
            {name: Address(said[name]["endpoint"], said[name]["public_key"]) for name in names},
            (replace(served, **self.model), *(self._long_part(served, longer) if longer else ())),
            (AccessKey("0123456789ab", sha256(SECRET.encode()).hexdigest(), **self.key),),
            self.desk,
        )
        write_published(self.folder / "table.json", published)

    def _long_part(self, served: PublishedModel, instance: str) -> tuple[PublishedModel]:
        long = f"{MODEL}-long"
        return (replace(served, routing=text_model(long, [member(long, instance, "z1", WHOLE, self.rate)])),)

    def start_gateway(self, *arguments: str) -> None:
        byte_tokenizer(self.folder / "tokenizer")
        key = self.folder / "gateway.key"
        if not key.exists():
            self.keys.save(key)
        table = ["--table", str(self.folder / "table.json"), "--key", str(key)]
        self.gateway = Process("control.gateway", ["--port", "0", *table, *arguments], self.folder / "gateway.log")

    def client(self, **options: Any) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=API_KEY, max_retries=0, **{"timeout": 120, **options})

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {API_KEY}"}, timeout=120)

    def wait_for(self, metric: str, value: float, timeout_s: float = 120.0) -> None:
        """Until the gateway's own metric has that value. An instance says its load a few times a second."""
        self.wait_until(metric, lambda found: found == value, timeout_s)

    def wait_until(self, metric: str, is_so: Callable[[float], bool], timeout_s: float = 120.0) -> None:
        """Until the gateway's own metric has a value that is so."""
        end = time.monotonic() + timeout_s
        with self.http() as http:
            while time.monotonic() < end:
                found = self.metrics(http).get(metric)
                if found is not None and is_so(found):
                    return
        raise AssertionError(f"{metric} is {self.metrics().get(metric)}, not what is waited for")

    def metrics(self, http: httpx.Client | None = None) -> dict[str, float]:
        text = http.get("/metrics").text if http else httpx.get(f"{self.url}/metrics", timeout=120).text
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def wait_ready(self, *instances: str) -> None:
        for name in instances or tuple(self.echoes):
            self.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 1.0)

    def stop(self) -> None:
        for process in [*self.echoes.values(), *([self.gateway] if self.gateway else [])]:
            process.stop(signal.SIGKILL)


@contextmanager
def world_of(folder: Path, echoes: dict[str, tuple[str, ...]], *gateway: str, **model: Any) -> Iterator[World]:
    """Echo schedulers with these arguments, one gateway, ready. `model`: what differs from the usual one."""
    world = World(folder, model=model)
    try:
        for name, arguments in echoes.items():
            world.echo(name, *arguments)
        world.publish()
        world.start_gateway(*gateway)
        world.wait_ready()
        yield world
    finally:
        world.stop()
