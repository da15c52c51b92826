"""Sizes and times of the links that KV cache goes over."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandOffSettings:
    interface: str = "127.0.0.1"
    """This node's address on the private network; nothing is bound elsewhere."""
    chunk_bytes: int = 2 << 20
    """What is copied out of the engine, sent and acknowledged at once: steps of other requests wait no longer than for
    one such copy. Both ends have the same."""
    window_chunks: int = 4
    """Credit: chunks that the receiving end has room for, and may have to acknowledge. Both ends have the same."""
    stall_s: float = 10.0
    """An end that should take or give something, and does not for as long, is connected anew."""
