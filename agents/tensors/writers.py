"""Tensors as their producers write them: right into the slab, from where consumers read them."""

from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from agents.messages.tensor_spec import TensorSpec
from agents.messages.to_sidecar import ClaimChunk, CommitChunk, EndStream, WithdrawTensor
from agents.tensors.calls import Calls
from agents.tensors.view import numpy_dtype
from agents.transfer.errors import BadPieceError, TransferError


class _Writer(ABC):
    """As a context it ends the tensor, or withdraws it where an error leaves it."""

    def __init__(self, calls: Calls, name: str, spec: TensorSpec) -> None:
        self.name, self.spec = name, spec
        self._calls = calls
        self._committed = 0
        self._granted: deque[tuple[object, int, int]] = deque()
        """(token, offset, size) of each chunk that is not committed."""
        self._commits: deque[Future[Any]] = deque()
        """Whose answers were not looked at."""

    @abstractmethod
    def end(self) -> None:
        """Ends it. Raises TransferError where nobody wants it any more."""

    def withdraw(self) -> None:
        """Whoever takes it raises BlobGoneError."""
        while self._granted:
            token, offset, _ = self._granted.popleft()
            self._calls.release(token, offset)
        with suppress(TransferError):  # it is gone already
            self._calls.ask(WithdrawTensor, self.name).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.withdraw()
            return
        try:
            self.end()
        except BaseException:
            self.withdraw()
            raise

    def _grant(self, offset: int, size: int) -> None:
        token = object()
        self._calls.lease(token)
        self._granted.append((token, offset, size))

    def _view(self, offset: int, size: int) -> memoryview:
        return self._calls.slab[offset : offset + size]

    def _commit(self) -> None:
        """Hands the next chunk over, without waiting for the answer. Raises TransferError, also of a chunk before."""
        while self._commits and self._commits[0].done():
            self._commits.popleft().result()
        token, offset, size = self._granted[0]
        asked = self._calls.ask(CommitChunk, self.name, self._committed, size)
        asked.add_done_callback(lambda answered: self._settle(answered, token, offset))
        self._granted.popleft()
        self._commits.append(asked)
        self._committed += 1

    def _settle(self, answered: Future[Any], token: object, offset: int) -> None:
        """What is committed is the tensor's; what is refused is still this process's."""
        if answered.exception() is None:
            self._calls.forget(token)
        else:
            self._calls.release(token, offset)

    def _check(self) -> None:
        while self._commits:
            self._commits.popleft().result()


class TensorWriter(_Writer):
    """Memory of a whole tensor. What is committed is read while the rest is written, and is not to be written again."""

    def __init__(self, calls: Calls, name: str, spec: TensorSpec, offset: int, size: int) -> None:
        super().__init__(calls, name, spec)
        part = calls.attached.chunk_bytes
        self._bytes = np.frombuffer(self._view(offset, size), np.uint8) if size else np.empty(0, np.uint8)
        self.array: npt.NDArray[Any] = self._bytes.view(numpy_dtype(spec.dtype)).reshape(spec.shape)
        """Of bfloat16 the bits, as uint16."""
        for at in range(0, size, part):
            self._grant(offset + at, min(part, size - at))

    def fill(self, array: npt.NDArray[Any]) -> None:
        """Copies an array of the same type and shape into it, chunk by chunk. Raises TransferError."""
        if array.dtype != self.array.dtype or array.shape != self.array.shape:
            mine = f"{self.array.dtype} {self.array.shape}"
            raise BadPieceError(f"{self.name} is {mine}, not {array.dtype} {array.shape}")
        if not array.flags.c_contiguous:
            self.array[...] = array
            return
        source = array.reshape(-1).view(np.uint8)
        at = 0
        while self._granted:
            size = self._granted[0][2]
            self._bytes[at : at + size] = source[at : at + size]
            at += size
            self._commit()

    def end(self) -> None:
        while self._granted:
            self._commit()
        self._check()


class StreamWriter(_Writer):
    """A tensor that grows by rows."""

    def write(self, rows: npt.NDArray[Any]) -> None:
        """Adds rows, in as many chunks as it takes. Waits for room, and for consumers that are too far behind. Raises
        TransferError, and BadPieceError for rows of another type or shape."""
        dtype, shape = numpy_dtype(self.spec.dtype), self.spec.shape
        if rows.dtype != dtype or rows.shape[1:] != shape or rows.ndim != len(shape) + 1:
            raise BadPieceError(f"rows are {dtype} {shape}, not {rows.dtype} {rows.shape[1:]}")
        if not len(rows):
            return
        row_bytes = rows.nbytes // len(rows)
        at_once = max(1, self._calls.attached.chunk_bytes // row_bytes)
        for at in range(0, len(rows), at_once):
            self._write(rows[at : at + at_once])

    def end(self) -> None:
        self._check()
        self._calls.ask(EndStream, self.name).result()

    def _write(self, rows: npt.NDArray[Any]) -> None:
        granted = self._calls.ask(ClaimChunk, self.name, self._committed, rows.nbytes).result()
        self._grant(granted.offset, granted.size)
        np.frombuffer(self._view(granted.offset, granted.size), rows.dtype).reshape(rows.shape)[...] = rows
        self._commit()
