"""Errors of an engine; the type says what to do next."""

from agents.transfer.errors import BlobGoneError


class EngineError(Exception):
    """Base of all errors an engine raises on purpose."""


class OutOfKvBlocksError(EngineError):
    """The step or import needs more KV cache than is free. Nothing was changed: free requests, or send less."""

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(f"needs {needed} more blocks of KV cache of one layer, {free} are free: free a request first")
        self.needed = needed
        self.free = free


class OutOfMemoryError(EngineError):
    """Weights and KV cache do not fit the device: load fewer layers, fewer KV blocks, or elsewhere."""


_NO_MEMORY = ("out of memory", "allocate memory", "not enough memory")
"""Words of torch, whose allocators raise no error of their own on processors."""


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an allocation has failed."""
    if isinstance(error, RuntimeError):
        return any(words in str(error) for words in _NO_MEMORY)
    return isinstance(error, OutOfMemoryError | MemoryError)


class UnknownRequestError(EngineError, BlobGoneError):
    """The engine holds no KV cache of this request: it was never admitted here, or is freed."""


class BadBatchError(EngineError):
    """The step does not fit what the engine holds: wrong positions, counts, shapes or ids. The caller's bug."""


class UnmadeAnswerError(EngineError):
    """The engine does not get through one answer, and goes on with others: refuse that one, and drop it."""


class RankLostError(EngineError):
    """A rank of a sharded stage is gone: close the engine and load it anew; its requests go on elsewhere."""
