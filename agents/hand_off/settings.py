"""Sizes and times of the links that KV cache goes over."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandOffSettings:
    interface: str = "127.0.0.1"
    """This node's address on the private network; nothing is bound elsewhere."""
    chunk_bytes: int = 2 << 20
    """What is copied out of the engine and sent at once: steps of other requests wait no longer than for one such copy,
    and it is still in the processor's cache when it is sent. Both ends have the same."""
    lanes: int = 3
    """Credit: chunks that the receiving end has room for, each on a connection of its own. Both ends have the same."""
    unsent_chunks: int = 4
    """That the sending end has copied out of the engine."""
    answered_chunks: int = 16
    """An acknowledgement is wanted for one chunk of as many, and for the last of a request: what is sent again when a
    link breaks is little more."""
    stall_s: float = 10.0
    """An end that should take or give something, and does not for as long, is connected anew."""
