"""What the control plane publishes for gateways: one file, replaced whole. A gateway serves from the last good one."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agents.channels.dialer import Address
from agents.channels.errors import BadKeyError
from policies.routing_table import RoutedModel


class PublishedError(ValueError):
    """The file cannot be used; the message says what is wrong with it and where."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    routing: RoutedModel
    tokenizer: str
    """Path of a GGUF file, or of a directory with tokenizer.json."""
    context_tokens: int
    """Prompt and output together."""
    created: int
    """Unix seconds, for /v1/models."""
    max_top_logprobs: int | None = None
    """Alternatives that the engine can report; None where it has no log-probabilities."""
    mean_output_tokens: float = 256.0
    """Of the demand that was planned for: what admission books for an answer whose length nobody knows."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """An API token that works (`control.access.api_token`)."""

    id: str
    sha256: str
    """Of its secret part, in hexadecimal: the token itself is nowhere."""

    def __post_init__(self) -> None:
        if len(bytes.fromhex(self.sha256)) != hashlib.sha256().digest_size:
            raise ValueError(f"access key {self.id}: sha256 is no SHA-256 digest")


@dataclass(frozen=True, slots=True)
class Published:
    version: int
    addresses: dict[str, Address]
    """Instance id → its scheduler."""
    models: tuple[ServedModel, ...]
    access: tuple[AccessKey, ...] | None = None
    """None: open to everybody who reaches the gateway."""

    def __post_init__(self) -> None:
        ids = [model.routing.id for model in self.models]
        if len(set(ids)) != len(ids):
            raise ValueError("model ids repeat")
        for model in self.models:
            missing = sorted({instance.id for instance in model.routing.instances} - set(self.addresses))
            if missing:
                raise ValueError(f"model {model.routing.id}: no address for instance {', '.join(missing)}")


def read_published(path: Path) -> Published:
    """Raises PublishedError with the file's name."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Published)
    except (OSError, msgspec.MsgspecError, ValueError, BadKeyError) as error:
        raise PublishedError(f"routing table {path}: {error}") from error


def write_published(path: Path, published: Published) -> None:
    """Replace the file in one step: a reader sees the old one or the new one, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(published))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
