"""A world of real processes in which an app is served: executors of its encoder, decoders that echo, a gateway."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from control.gateway.published import AccessKey, MediaTerms, Published, PublishedModel, write_published
from control.gateway.published_app import ServedApp, TaskCode
from policies.routing import BY_ID
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute
from templates_lib.values.work import Edge, Unit
from tests.agents.engines.components.tiny_graphs import save_graph
from tests.agents.tensors.nodes import Node
from tests.control.gateway.world import SECRET, Process, World, byte_tokenizer
from tests.media_files import noise

APP, ZONE = "vl", "z1"
WITH_IMAGES, TEXT_ALONE = "image-text-to-text", "text-to-text"
SEEN, WRITTEN = RoutedLeg(f"{APP}/vision", Unit.IMAGE_TOKEN, 6.0), RoutedLeg(f"{APP}/language", Unit.OUTPUT_TOKEN, 8.0)
ROUTES = {
    WITH_IMAGES: RoutedRoute(f"{APP}/{WITH_IMAGES}/vision-language", (SEEN, WRITTEN), (Edge(0, 1, 1e3),)),
    TEXT_ALONE: RoutedRoute(f"{APP}/{TEXT_ALONE}/language", (WRITTEN,)),
}
ROLES = {SEEN.work_class: ("vision",), WRITTEN.work_class: ("language",)}
SIZE, ROWS = (24, 16), 6
"""Of a picture: its pixels are 3 by 2 squares that become a row each."""
LOOK = {
    "min_pixels": 64,
    "max_pixels": 4096,
    "rescale_factor": 1 / 255,
    "image_mean": [0.5] * 3,
    "image_std": [0.2] * 3,
}
TASK = """
from medley_sdk import decoder, encoder, workflow

vision, language = encoder("vision", of="tiny"), decoder("language", of="tiny")

@workflow(takes=("text", "image"), makes=("text",))
async def describe(request):
    return language(request.text, [vision(image) for image in request.images])
"""
MARK = "{"
"""Text of the token that stands for a picture: number `IMAGE_TOKEN` of the byte tokenizer."""
TEMPLATE = (
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    "{{ '<" + MARK + ">' if part['type'] == 'image' else part['text'] }}{% endfor %}{% endif %}{% endfor %}"
)


def image(seed: int = 0, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    made = io.BytesIO()
    noise(size, seed).convert("RGB").save(made, "PNG")
    data = base64.b64encode(made.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def asked(text: str, *seeds: int, **more: Any) -> dict[str, Any]:
    """A request about pictures."""
    content = [*map(image, seeds), {"type": "text", "text": text}]
    return {"model": APP, "messages": [{"role": "user", "content": content}], **more}


def expected(text: str, pictures: int, tokens: int) -> str:
    """What an echo answers: the prompt over and over, in which a picture has a token for each row."""
    prompt = f"<{MARK * ROWS}>" * pictures + text
    return (prompt * (1 + tokens // len(prompt)))[:tokens]


def app_tokenizer(folder: Path) -> Path:
    """One token a byte, and `MARK` for a picture."""
    byte_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "chat_template": TEMPLATE}))
    return folder


@dataclass
class AppWorld(World):
    """Executors and decoders are of `node`; all by `start_app`."""

    node: Node | None = None
    task: str = TASK
    types: Sequence[str] = (WITH_IMAGES, TEXT_ALONE)
    routes: Mapping[str, RoutedRoute] = field(default_factory=lambda: ROUTES)
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: ROLES)
    weights: Path | None = None
    """A checkpoint; None: one of `graph` with random weights is saved."""
    graph: str = "qwen-vl"
    config: dict[str, Any] = field(default_factory=dict)
    """Of the model; empty: the checkpoint's, with how its pictures are made."""
    tokenizer: Path | None = None
    """None: one token a byte."""
    context: int = 20_000
    policy: str = BY_ID

    def executor(self, name: str, work_class: str = SEEN.work_class) -> Process:
        """One of the component that does a work class."""
        assert self.node is not None
        if self.weights is None:
            self.weights = self.folder / "weights"
            save_graph(self.graph, self.weights)
        key = self.folder / f"{name}.key"
        KeyPair.generate().save(key)
        layout = PipelineLayout(APP, ((NodeLimits("node", 1.0, 4, 64, 64),),), 16, self.context, 96)
        path = self.folder / f"{name}.json"
        path.write_bytes(msgspec.json.encode(InstanceFile(layout, {self.keys.public: "gateway"}, {})))
        given = ("--instance", path, "--key", key, "--checkpoint", self.weights, "--dtype", "float32")
        (component,) = self.roles[work_class]
        command = [*map(str, given), "--components", component, "--sidecar", self.node.name]
        process = Process("agents.executor", command, self.folder / f"{name}.log")
        self.echoes[name], self.legs[name] = process, (ZONE, work_class)
        return process

    def decoder(self, name: str, *arguments: str) -> Process:
        assert self.node is not None
        return self.echo(name, "--sidecar", self.node.name, *arguments, zone=ZONE, leg=WRITTEN.work_class)

    def serve(self, task: str = TASK, types: Sequence[str] = (WITH_IMAGES, TEXT_ALONE)) -> None:
        """Have the gateway serve this, if it does not yet."""
        if (self.task, self.types) != (task, types):
            self.task, self.types = task, types
            self.publish_app()
            self.wait_for("medley_gateway_table_version", self.version)

    def publish_app(self) -> None:
        self.version += 1
        members = tuple(RoutedInstance(name, zone, {of: self.rate}) for name, (zone, of) in self.legs.items())
        assert self.weights is not None
        config = self.config or json.loads((self.weights / "config.json").read_text()) | {"preprocessor_config": LOOK}
        tokenizer = self.tokenizer or app_tokenizer(self.folder / "app-tokenizer")
        models = []
        for kind in self.types:
            route = self.routes[kind]
            classes = {leg.work_class for leg in route.legs}
            own = tuple(member for member in members if classes & member.units_per_s.keys())
            routing = RoutedModel(f"{APP}-{kind}", (route,), own, self.policy)
            models.append(PublishedModel(routing, str(tokenizer), self.context, 17, 5, media=MediaTerms(config)))
        types = {kind: f"{APP}-{kind}" for kind in self.types}
        app = ServedApp(APP, TaskCode("describe.py", self.task, "describe"), types, self.roles)
        where = {name: Address(each.said["endpoint"], each.said["public_key"]) for name, each in self.echoes.items()}
        keys = (AccessKey("0123456789ab", sha256(SECRET.encode()).hexdigest()),)
        write_published(self.folder / "table.json", Published(self.version, where, tuple(models), keys, apps=(app,)))
