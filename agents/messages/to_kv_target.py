"""Messages to the scheduler that takes a KV cache, from the one that sends it."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Count, MaybeName, Name, Position, TokenId
from agents.messages.kv_shape import KvShape
from agents.messages.to_stage import MAX_PARTS, MAX_PEERS

Place = Annotated[int, Meta(ge=0, lt=MAX_PEERS)]
Part = Annotated[int, Meta(ge=0, lt=MAX_PARTS)]


class KvSource(Struct, frozen=True, array_like=True, tag="kv_source"):
    """First message: how my KV cache lies. Answered by `KvTarget`."""

    shape: KvShape


class Offer(Struct, frozen=True, array_like=True, tag="offer"):
    """Take the KV cache of a prompt when you have room. Answered by `Accept`, `Taken` or `Decline`.

    Said while the prompt is computed, where `KvTarget.streams` allows it, and again when its first token is known.
    Repeated after a lost connection for everything that is not known to be taken."""

    hand_off: Name
    tokens: Position
    """In the KV cache, once the prompt is computed."""
    token: TokenId | None
    """Sampled behind them, and sent to the client already; None: not known yet."""


class Withdraw(Struct, frozen=True, array_like=True, tag="withdraw"):
    """There is nothing to hand off any more. Not answered."""

    hand_off: Name
    is_early: bool = False
    """No token was offered: the gateway ends the request, or has it computed elsewhere."""


class OpenLink(Struct, frozen=True, array_like=True, tag="open_link"):
    """Have your worker connect to mine; anew where they were connected before."""

    stage: Place
    node: Place
    target_stage: Place
    target_node: Place
    epoch: Count
    part: Part = 0
    """Part of the stages inside my node."""
    target_part: Part = 0
    secret: MaybeName = ""
    """As of `OpenKvLink`."""


ToKvTarget = KvSource | Offer | Withdraw | OpenLink
