"""What two ends of a channel say to each other before and beside their messages proper.

The first fields of `Hello`, and `Refused`, never change: they are what two protocol versions use to find out that
they differ.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Name, Text

NEWEST_PROTOCOL = 6
OLDEST_PROTOCOL = 1
"""Serving goes on while agents are upgraded: the previous version is spoken too. Version 2 has nodes run several
executors (`to_node.Work`, `to_hub.NodeReport`), version 3 engines that are schedulers too (`to_node.RunWhole`), version
4 executors of parts of graphs, with a share of the node's processors of their own (`to_node.Run`), version 5 executors
that share a KV cache (`to_node.Pool`), version 6 gateways that tell what came in the last seconds
(`to_demand_desk.Recent`)."""

Version = Annotated[int, Meta(ge=0, lt=1 << 16)]


class Refusal(StrEnum):
    PROTOCOL = "protocol"
    """No protocol version in common: upgrade the older end."""
    NO_SESSION = "no_session"
    """The receiver does not know this connection (it restarted, or took the sender for dead): say hello again."""
    MALFORMED = "malformed"
    """A message that cannot be decoded, or breaks a bound."""


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    """First message of whoever dials. Who it is, the receiver knows from its key."""

    newest: Version
    oldest: Version
    role: Name


class Welcome(Struct, frozen=True, array_like=True, tag="welcome"):
    protocol: Version


class Refused(Struct, frozen=True, array_like=True, tag="refused"):
    code: Refusal
    reason: Text


class Ping(Struct, frozen=True, array_like=True, tag="ping"):
    """Asks for a sign of life."""


class Pong(Struct, frozen=True, array_like=True, tag="pong"):
    """A sign of life."""


SessionMessage = Hello | Welcome | Refused | Ping | Pong


def common_protocol(hello: Hello) -> int | None:
    """The newest version that both ends speak, None where there is none."""
    newest = min(NEWEST_PROTOCOL, hello.newest)
    return newest if newest >= max(OLDEST_PROTOCOL, hello.oldest) else None
