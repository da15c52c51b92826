"""Sizes and times of the links that KV cache goes over."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandOffSettings:
    interface: str = "127.0.0.1"
    """This node's address on the private network; nothing is bound elsewhere."""
    chunk_bytes: int = 2 << 20
    """Most bytes that are sent behind a header; what is copied on its way is copied in memory of this size. Both ends
    have the same."""
    least_bytes: int = 512 << 10
    """While a step is under way, as many are put together, over layers; the end of the step sends what is left. A chunk
    for each layer of a short prompt cost its step a quarter more: link threads and engine share a lock and a core."""
    answered_chunks: int = 16
    """An acknowledgement is wanted for one chunk of as many, and for the last of a request: what is sent again when a
    link breaks is little more."""
    stall_s: float = 10.0
    """An end that should take or give something, and does not for as long, is connected anew."""
