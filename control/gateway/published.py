"""What the control plane publishes for gateways: one file, replaced whole. A gateway serves from the last good one."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agents.channels.address import Address
from agents.channels.errors import BadKeyError
from control.access.pepper import TokenDigest
from control.access.use_limits import NO_LIMITS, UseLimits
from control.gateway.former_table import with_former_keys, with_routes
from control.gateway.published_app import ServedApp
from policies.fair_order import Account
from policies.priority import Priority
from policies.routing import ROUTING_POLICIES
from policies.routing_table import RoutedModel
from templates_lib.graphs.read import graph_from_config

MAX_HOLD_S = 3600.0


class PublishedError(ValueError):
    """The file cannot be used; the message says what is wrong with it and where."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Terms on which requests wait for a model that nothing serves."""

    max_requests: int
    """Requests that wait at one gateway; more are told to come again."""
    timeout_s: float

    def __post_init__(self) -> None:
        if self.max_requests < 0 or not 0 < self.timeout_s <= MAX_HOLD_S:
            raise ValueError(f"requests are held for up to {MAX_HOLD_S:g} s, and not fewer than none of them")


@dataclass(frozen=True, slots=True)
class MediaTerms:
    """What a model takes beside text. Raises UnsupportedModelError for a config that is not read."""

    config: dict[str, Any]
    """Published with its weights: which modalities it reads, and how pictures are cut and counted."""
    max_images: int = 16
    """Of one request."""
    max_clips: int = 4

    def __post_init__(self) -> None:
        graph_from_config(self.config, "model", "published")


@dataclass(frozen=True, slots=True)
class PublishedModel:
    routing: RoutedModel
    tokenizer: str
    """Path of a GGUF file, or of a directory with tokenizer.json."""
    context_tokens: int
    """Prompt and output together: the model's, or what all its instances have KV cache for."""
    created: int
    """Unix seconds, for /v1/models."""
    max_top_logprobs: int | None = None
    """Alternatives that the engine can report; None where it has no log-probabilities."""
    mean_prompt_tokens: float = 256.0
    """Mean of the demand that was planned for."""
    mean_output_tokens: float = 256.0
    """The same: what admission accounts for an answer whose length nobody knows."""
    fleet: str = ""
    """Fleet whose demand its requests are."""
    hold: Hold | None = None
    """None: it is there, or requests are refused."""
    max_prompt_tokens: int = 0
    """Longer prompts are for `longer`; 0: no limit."""
    longer: str = ""
    """Another model of the table: the part of this one with instances for long prompts."""
    prompt_room_tokens: int = 0
    """Longest prompt that all instances which compute prompts have KV cache for; 0: no shorter than the context."""
    media: MediaTerms | None = None
    """None: it takes text alone."""

    @property
    def most_prompt_tokens(self) -> int:
        return min(self.context_tokens, self.prompt_room_tokens or self.context_tokens)


@dataclass(frozen=True, slots=True)
class AccessKey:
    """An API token that works (`control.access.api_token`)."""

    id: str
    sha256: str
    """Hash of its secret part, in hexadecimal, or HMAC with a pepper: the token itself is nowhere."""
    project: str = ""
    """Project whose use it is."""
    requests_per_minute: int | None = None
    """Limit at each gateway; None: no limit."""
    tokens_per_minute: int | None = None
    priority: Priority = Priority.STANDARD
    """Of its holder's requests, at the most."""
    concurrent_requests: int | None = None
    project_limits: UseLimits = NO_LIMITS
    """Of all keys of its project together, at each gateway."""
    pepper: str = ""
    """Id of the pepper; empty: none."""

    def __post_init__(self) -> None:
        if len(bytes.fromhex(self.sha256)) != hashlib.sha256().digest_size:
            raise ValueError(f"access key {self.id}: sha256 is no SHA-256 digest")
        try:
            _ = self.limits
        except ValueError as error:
            raise ValueError(f"access key {self.id}: {error}") from None

    @property
    def digest(self) -> TokenDigest:
        return TokenDigest(bytes.fromhex(self.sha256), self.pepper)

    @property
    def limits(self) -> UseLimits:
        """Its own."""
        return UseLimits(self.requests_per_minute, self.tokens_per_minute, self.concurrent_requests)

    @property
    def account(self) -> Account:
        """Whose work its requests are."""
        return self.project, self.id


@dataclass(frozen=True, slots=True)
class Published:
    version: int
    addresses: dict[str, Address]
    """Member → its scheduler."""
    models: tuple[PublishedModel, ...]
    access: tuple[AccessKey, ...] | None = None
    """None: open to everybody who reaches the gateway."""
    demand_desk: Address | None = None
    """Address of who wants to know what load is offered; None: nobody."""
    apps: tuple[ServedApp, ...] = ()

    def __post_init__(self) -> None:
        ids = [model.routing.id for model in self.models]
        if len(set(ids)) != len(ids):
            raise ValueError("model ids repeat")
        for model in self.models:
            missing = sorted({member.id for member in model.routing.members} - set(self.addresses))
            if missing:
                raise ValueError(f"model {model.routing.id}: no address for {', '.join(missing)}")
            if model.routing.policy not in ROUTING_POLICIES:
                raise ValueError(f"model {model.routing.id}: there is no routing policy {model.routing.policy!r}")
            if model.longer and model.longer not in ids:
                raise ValueError(f"model {model.routing.id}: long prompts are for {model.longer}, which is not there")
        names = [*ids, *(app.name for app in self.apps)]
        if len(set(names)) != len(names):
            raise ValueError("names of apps repeat, or are those of models")
        for app in self.apps:
            app.check({model.routing.id: model.routing for model in self.models})


def read_published(path: Path) -> Published:
    """Raises PublishedError with the file's name."""
    try:
        return msgspec.convert(with_routes(msgspec.json.decode(path.read_bytes())), Published)
    except (OSError, msgspec.MsgspecError, ValueError, BadKeyError) as error:
        raise PublishedError(f"routing table {path}: {error}") from error


class _Keys(msgspec.Struct):
    access: tuple[AccessKey, ...]


def read_keys(path: Path) -> tuple[AccessKey, ...] | None:
    """Read the keys of a table whose rest cannot be used; None where not even these can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Keys).access
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def write_published(path: Path, published: Published) -> None:
    """Replace the file in one step: a reader sees the old one or the new one, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(with_former_keys(msgspec.to_builtins(published))))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
