"""What an executor has of tensors: it puts them into its node's sidecar, and takes them wherever they are."""

import secrets
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec
import numpy.typing as npt

from agents.messages.tensor_spec import ElementType, TensorSpec
from agents.messages.to_sidecar import (
    AdoptTensor,
    CreateTensor,
    LeaveTensor,
    PushTensor,
    SidecarAddress,
    TakeChunk,
    WithdrawTensor,
)
from agents.messages.to_tensor_client import Adopted, ChunkHere, Granted, TensorEnded
from agents.tensors.calls import Calls, give_back
from agents.tensors.view import SlabView, TensorView, viewed
from agents.tensors.writers import StreamWriter, TensorWriter
from agents.transfer.errors import BadPieceError, LinkLostError, TransferError

_CREDIT = 4
"""Chunks that are asked for before the first of them is here."""
KEEP_S = 60.0
WAIT_S = 60.0


class TensorClient:
    """For any thread. Whatever it raises is a TransferError: BlobGoneError (make it again), StoreFullError (it never
    fits), BadPieceError (the caller's bug), LinkLostError (the sidecar of this node, or the other one, is gone)."""

    def __init__(self, sidecar: str, process: str, *, writes: bool = True) -> None:
        """`sidecar`: its name on this node. `process`: whose quota it is. `writes`: False for who only takes. Raises
        LinkLostError."""
        self._calls = Calls(sidecar, process, writes=writes)

    @property
    def address(self) -> SidecarAddress:
        """Of this node's sidecar, for those on other nodes who are to take from it."""
        return self._calls.attached.address

    def is_gone(self) -> bool:
        """Whether this node's sidecar does not answer this client any more, by asking it. A LinkLostError says as much
        of it as of the sidecar of another node."""
        try:
            self.withdraw(secrets.token_hex(16))  # which is there in no case
        except LinkLostError:
            return True
        except TransferError:
            return False
        return False

    def close(self) -> None:
        """Nothing more is asked for. What was taken stays for as long as it is held."""
        self._calls.close()

    # Producers.

    def create(
        self,
        name: str,
        dtype: ElementType,
        shape: tuple[int, ...],
        *,
        consumers: int = 1,
        keep_s: float = KEEP_S,
        key: str | None = None,
    ) -> TensorWriter:
        """Makes room for a tensor, to be written in place; waits for it where there is none. `consumers`: processes of
        this node and other nodes that take it. `keep_s`: the longest that none of it may be written or taken. `key`: of
        what it is made from (`adopt`)."""
        spec = _spec(dtype, shape, is_stream=False)
        granted = self._create(name, spec, consumers, keep_s, 1, key)
        return TensorWriter(self._calls, name, spec, granted.offset, granted.size)

    def put(
        self,
        name: str,
        array: npt.NDArray[Any],
        *,
        dtype: ElementType | None = None,
        consumers: int = 1,
        keep_s: float = KEEP_S,
        key: str | None = None,
    ) -> None:
        """Copies an array into the slab. `dtype`: bfloat16 for bits that numpy calls uint16."""
        kind: Any = dtype or array.dtype.name
        with self.create(name, kind, array.shape, consumers=consumers, keep_s=keep_s, key=key) as writer:
            writer.fill(array)

    def stream(
        self,
        name: str,
        dtype: ElementType,
        row: tuple[int, ...],
        *,
        consumers: int = 1,
        keep_s: float = KEEP_S,
        ahead: int = 64,
        key: str | None = None,
    ) -> StreamWriter:
        """Begins a tensor that comes in rows of shape `row`, until `end`. `ahead`: chunks before the slowest consumer,
        for which the writer waits."""
        spec = _spec(dtype, row, is_stream=True)
        self._create(name, spec, consumers, keep_s, ahead, key)
        return StreamWriter(self._calls, name, spec)

    def adopt(self, name: str, key: str, *, consumers: int = 1, keep_s: float = KEEP_S) -> TensorSpec | None:
        """Puts what is kept under that key, without a copy. None: nothing is, and it has to be computed."""
        answer: Adopted = self._calls.ask(AdoptTensor, name, key, consumers, keep_s).result()
        return answer.spec

    def push(self, name: str, to: SidecarAddress, *, consumers: int = 1) -> None:
        """Has it sent to another node as it comes, where `consumers` will take it with this node's address as source;
        here that node is one consumer."""
        self._calls.ask(PushTensor, name, to, consumers).result()

    def withdraw(self, name: str) -> None:
        """Ends a tensor that this client is writing: whoever takes it raises BlobGoneError."""
        self._calls.ask(WithdrawTensor, name).result()

    # Consumers.

    def take(
        self,
        name: str,
        source: SidecarAddress | None = None,
        *,
        consumers: int = 1,
        wait_s: float = WAIT_S,
        consumer: str | None = None,
    ) -> TensorView:
        """Takes a whole tensor. `source`: the sidecar where it was put; none: that of this node. From another node it
        is pulled once for the `consumers` of this one (ranks of a group). `wait_s`: for one that is not there yet.
        `consumer`: 32 hexadecimal digits of the caller's own, by which another thread may `leave` what this one waits
        for."""
        views: list[SlabView] = []
        spec: TensorSpec | None = None
        view: SlabView | None = None
        try:
            for here, view in self._chunks(name, source, consumers, wait_s, consumer):
                spec = here.spec
                if spec.is_stream:
                    raise BadPieceError(f"{name} is a stream")
                if view is not None:
                    views.append(view)
        except BaseException:
            views, view = [], None  # whoever keeps the error keeps this frame, and would keep the memory
            raise
        assert spec is not None  # noqa: S101
        return viewed(spec, SlabView.joined(self._calls, views) if views else None)

    def take_stream(
        self, name: str, source: SidecarAddress | None = None, *, consumers: int = 1, wait_s: float = WAIT_S
    ) -> Iterator[TensorView]:
        """Yields rows as they come. What came is all of it only where nothing is raised."""
        for here, view in self._chunks(name, source, consumers, wait_s):
            if not here.spec.is_stream:
                raise BadPieceError(f"{name} is no stream")
            if view is not None:
                yield viewed(here.spec, view)

    def leave(self, name: str, source: SidecarAddress | None, consumer: str) -> None:
        """Ends what a consumer of this client waits for: it raises BlobGoneError."""
        self._calls.leave(LeaveTensor(name, source, consumer))

    def _create(
        self, name: str, spec: TensorSpec, consumers: int, keep_s: float, ahead: int, key: str | None
    ) -> Granted:
        granted: Granted = self._calls.ask(CreateTensor, name, spec, consumers, keep_s, ahead, key).result()
        return granted

    def _chunks(
        self, name: str, source: SidecarAddress | None, consumers: int, wait_s: float, consumer: str | None = None
    ) -> Iterator[tuple[ChunkHere | TensorEnded, SlabView | None]]:
        """Chunks in order, and the end of a stream or of what has no chunk."""
        consumer = consumer or secrets.token_hex(16)
        asked: deque[Future[Any]] = deque()
        index, limit = 0, 1
        try:
            while index < limit:
                while len(asked) < min(_CREDIT, limit - index):
                    message = (name, source, consumers, consumer, index + len(asked), wait_s)
                    asked.append(self._calls.ask(TakeChunk, *message))
                answer = asked[0].result()
                asked.popleft()
                if isinstance(answer, TensorEnded):
                    yield answer, None
                    return
                index += 1
                limit = answer.chunks or index + _CREDIT
                yield answer, SlabView(self._calls, answer.offset, answer.size)
        finally:
            for future in asked:
                future.add_done_callback(partial(give_back, self._calls))
            self._calls.leave(LeaveTensor(name, source, consumer))


def _spec(dtype: str, shape: tuple[int, ...], *, is_stream: bool) -> TensorSpec:
    """Raises BadPieceError for a type or shape that no tensor has."""
    try:
        return msgspec.convert((dtype, shape, is_stream), TensorSpec)
    except msgspec.ValidationError as error:
        raise BadPieceError(f"no tensor is {dtype} {shape}: {error}") from error
