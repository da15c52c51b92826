"""What the loop and the engine's thread of an executor say to each other."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from agents.executor.queue import BatchLimits
from agents.messages.component_work import Encode
from agents.messages.to_gateway import Failure
from agents.messages.to_sidecar import SidecarAddress

UnitKey = tuple[bytes, int]
"""The gateway's connection, and its attempt."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The engines of all components are there."""

    limits: Mapping[str, BatchLimits]
    memory_bytes: int
    """Weights, and a batch as large as may be."""


@dataclass(frozen=True, slots=True)
class Wanted:
    key: UnitKey
    asked: Encode
    due_s: float
    """Of the monotonic clock: later nobody waits for it."""
    consumer: str = field(default_factory=partial(secrets.token_hex, 16))
    """By which its values are taken."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What came of a unit, and where it lies."""

    key: UnitKey
    rows: int
    row_width: int
    place: SidecarAddress


@dataclass(frozen=True, slots=True)
class NoRows:
    """Nothing came of a unit, and why."""

    key: UnitKey
    failure: Failure
    reason: str
