"""Messages to the scheduler that sends a KV cache, from the one that takes it."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Count, MaybeName, Name, Port, Text
from agents.messages.kv_shape import KvShape
from agents.messages.to_kv_target import Place
from agents.messages.to_stage import MAX_PEERS


class KvTarget(Struct, frozen=True, array_like=True, tag="kv_target"):
    """How my KV cache lies, and where our nodes meet."""

    shape: KvShape
    pair: Name
    """Of our two instances: the links between them are named after it."""
    rendezvous_host: Name
    rendezvous_port: Port
    streams: bool = False
    """Offers may come while prompts are computed; not to one of the previous version, which does not say."""
    network: MaybeName = ""
    """The private network that my nodes are in; empty: nobody said."""
    encrypts: bool = False
    """Its workers encrypt links that are given a secret; not those of the previous version, which does not say."""


class Accept(Struct, frozen=True, array_like=True, tag="accept"):
    """Room is reserved: send it."""

    hand_off: Name
    run: Count
    nodes: Annotated[tuple[Place, ...], Meta(min_length=1, max_length=MAX_PEERS)]
    """One peer of each of my stages."""


class Taken(Struct, frozen=True, array_like=True, tag="taken"):
    """All of it is here: you may free yours."""

    hand_off: Name
    moved_bytes: Count


class Decline(Struct, frozen=True, array_like=True, tag="decline"):
    """I do not take it, or not any more."""

    hand_off: Name
    reason: Text


ToKvSource = KvTarget | Accept | Taken | Decline
