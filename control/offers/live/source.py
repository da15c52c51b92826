"""The port of a source of live offers: its answer, and its failures."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Offer
from templates_lib.values.supply import SupplyPool


class SourceError(Exception):
    """A cloud could not be asked; the message says why, and what to do where something can be done."""


class NoAccessError(SourceError):
    """Credentials are missing, expired or too weak: the cloud is left out until its owner mends them."""


class NoAnswerError(SourceError):
    """Throttled to the end of all retries, out of reach, or not what was expected: ask again later."""


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    offers: tuple[Offer, ...]
    configs: Mapping[str, NodeConfig]
    pools: tuple[SupplyPool, ...] = ()
    notes: tuple[str, ...] = ()
    partly: bool = False
    """Some of what was asked for was not answered (a note says what): what it does not name may be sold yet."""


class LiveSource(Protocol):
    """Asked from a thread of its own; bounds its own calls, pages and bytes."""

    @property
    def cloud(self) -> str: ...

    @property
    def name(self) -> str:
        """Name of the source, for people: `aws-api`."""
        ...

    def fetch(self, now: datetime) -> LiveAnswer:
        """Raises SourceError only."""
        ...
