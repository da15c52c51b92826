"""A world of real processes in which an app is served: executors of its encoder, decoders that echo, a gateway."""

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
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
    "{{ '" + MARK + "' if part['type'] == 'image' else part['text'] }}{% endfor %}{% endif %}{% endfor %}"
)


def image(seed: int = 0) -> dict[str, Any]:
    made = io.BytesIO()
    noise(SIZE, seed).convert("RGB").save(made, "PNG")
    data = base64.b64encode(made.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def asked(text: str, *seeds: int, **more: Any) -> dict[str, Any]:
    """A request about pictures."""
    content = [*map(image, seeds), {"type": "text", "text": text}]
    return {"model": APP, "messages": [{"role": "user", "content": content}], **more}


def expected(text: str, pictures: int, tokens: int) -> str:
    """What an echo answers: the prompt over and over, in which a picture has a token for each row."""
    prompt = MARK * ROWS * pictures + text
    return (prompt * (1 + tokens // len(prompt)))[:tokens]


@dataclass
class AppWorld(World):
    """Executors and decoders are of `node`; all by `start_app`."""

    node: Node | None = None
    task: str = TASK
    types: Sequence[str] = (WITH_IMAGES, TEXT_ALONE)

    def encoder(self, name: str) -> Process:
        """One that runs from a checkpoint of random weights."""
        assert self.node is not None
        weights = self.folder / "weights"
        if not weights.exists():
            save_graph("qwen-vl", weights)
        key = self.folder / f"{name}.key"
        KeyPair.generate().save(key)
        layout = PipelineLayout(APP, ((NodeLimits("node", 1.0, 4, 64, 64),),), 16, 64, 96)
        path = self.folder / f"{name}.json"
        path.write_bytes(msgspec.json.encode(InstanceFile(layout, {self.keys.public: "gateway"}, {})))
        given = ("--instance", path, "--key", key, "--checkpoint", weights, "--dtype", "float32")
        command = [*map(str, given), "--components", "vision", "--sidecar", self.node.name]
        process = Process("agents.executor", command, self.folder / f"{name}.log")
        self.echoes[name], self.legs[name] = process, (ZONE, SEEN.work_class)
        return process

    def decoder(self, name: str, *arguments: str) -> Process:
        assert self.node is not None
        return self.echo(name, "--sidecar", self.node.name, *arguments, zone=ZONE, leg=WRITTEN.work_class)

    def publish_app(self) -> None:
        self.version += 1
        members = tuple(RoutedInstance(name, zone, {of: self.rate}) for name, (zone, of) in self.legs.items())
        config = json.loads((self.folder / "weights" / "config.json").read_text()) | {"preprocessor_config": LOOK}
        tokenizer = byte_tokenizer(self.folder / "app-tokenizer")
        (tokenizer / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "chat_template": TEMPLATE}))
        models = []
        for kind in self.types:
            route = ROUTES[kind]
            classes = {leg.work_class for leg in route.legs}
            own = tuple(member for member in members if classes & member.units_per_s.keys())
            routing = RoutedModel(f"{APP}-{kind}", (route,), own, BY_ID)
            models.append(PublishedModel(routing, str(tokenizer), 20_000, 17, 5, media=MediaTerms(config)))
        types = {kind: f"{APP}-{kind}" for kind in self.types}
        app = ServedApp(APP, TaskCode("describe.py", self.task, "describe"), types, ROLES)
        where = {name: Address(each.said["endpoint"], each.said["public_key"]) for name, each in self.echoes.items()}
        keys = (AccessKey("0123456789ab", sha256(SECRET.encode()).hexdigest()),)
        write_published(self.folder / "table.json", Published(self.version, where, tuple(models), keys, apps=(app,)))
