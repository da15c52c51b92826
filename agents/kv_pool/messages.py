"""What a member's engine and the owner of the pool say to each other. One packet of a local socket a message."""

import msgspec

MOST_BLOCKS = 1 << 20
"""Blocks in one message, at most."""
PACKET_BYTES = 1 << 16
BLOCKS_A_PACKET = 8_192
"""Whose numbers fit a packet: more are taken and given back in several."""


class Join(msgspec.Struct, tag="join", frozen=True):
    """The first message of a member; the answer is `Joined`, with the pool's memory as a file descriptor."""

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


Asked = Join | Take | Give | Left
encode = msgspec.msgpack.encode
decode_asked = msgspec.msgpack.Decoder(Asked).decode
