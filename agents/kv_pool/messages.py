"""What processes of a member and the owner of the pool say to each other. One packet of a local socket a message; what
the first message on a connection is says who speaks."""

import msgspec

MOST_BLOCKS = 1 << 20
"""Blocks in one message, at most."""
PACKET_BYTES = 1 << 16
BLOCKS_A_PACKET = 8_192
"""Whose numbers fit a packet: more are taken and given back in several."""


class Join(msgspec.Struct, tag="join", frozen=True):
    """The first message of an engine; the answer is `Joined`, with the pool's memory as a file descriptor."""

    member: int


class Joined(msgspec.Struct, tag="joined", frozen=True):
    blocks: int
    block_bytes: int


class Take(msgspec.Struct, tag="take", frozen=True):
    """Answered by `Taken`."""

    count: int


class Taken(msgspec.Struct, tag="taken", frozen=True):
    blocks: list[int]
    """None where not so many are left."""
    left: int
    """To the member, behind these."""


class Give(msgspec.Struct, tag="give", frozen=True):
    """Not answered."""

    blocks: list[int]


class Left(msgspec.Struct, tag="left", frozen=True):
    """Asks how many the member may take; answered by `Taken`, with none."""


class TakeTurns(msgspec.Struct, tag="take_turns", frozen=True):
    """The first message of an engine on a connection of its own, for turns. Not answered."""

    member: int


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """Answered by `Go` when the job may begin."""

    prompts: bool
    """Some prompt is computed in it; else all of its requests get a token."""


class Go(msgspec.Struct, tag="go", frozen=True):
    """It is the engine's turn until it says `Over`."""


class Over(msgspec.Struct, tag="over", frozen=True):
    """The job is done. Not answered."""


class Watch(msgspec.Struct, tag="watch", frozen=True):
    """The first message of a member's scheduler; the answer is `Watched`."""

    member: int


class Watched(msgspec.Struct, tag="watched", frozen=True):
    block_tokens: int
    """Tokens of the member's model that a block holds: keys or values of one head of one layer."""
    units: int
    """Blocks that hold as many tokens in all layers and heads, keys and values."""
    most: int
    """Blocks that the member could ever have."""
    quota: int
    """Blocks that it may count on now."""


class Needs(msgspec.Struct, tag="needs", frozen=True):
    """Says what a scheduler makes of its quota; answered by `Quota`."""

    counted: int
    """Blocks that it counts on."""
    wanted: int
    """Blocks that requests wait for."""


class Quota(msgspec.Struct, tag="quota", frozen=True):
    blocks: int
    """That it may count on from now on."""


Asked = Join | Take | Give | Left | TakeTurns | Ready | Over | Watch | Needs
encode = msgspec.msgpack.encode
decode_asked = msgspec.msgpack.Decoder(Asked).decode
