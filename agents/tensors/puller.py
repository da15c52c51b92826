"""Pulls a tensor of another node's sidecar right into the slab, over a link that is connected again when it breaks."""

import secrets
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from queue import SimpleQueue
from typing import TypeVar

import msgspec

from agents.messages.tensor_spec import TensorSpec
from agents.messages.to_sidecar import (
    MAX_MESSAGE_BYTES,
    ClaimChunk,
    CommitChunk,
    CreateTensor,
    EndStream,
    Look,
    Offer,
    SidecarAddress,
    Take,
)
from agents.messages.to_tensor_client import Granted, LinkReply, TensorRefused, ToTensorClient
from agents.tensors.book import LINKS, Asked
from agents.tensors.desk import Desk
from agents.tensors.entry import Pull
from agents.tensors.faults import error_of
from agents.tensors.slab import Extent
from agents.transfer.errors import BadPieceError, BlobGoneError, LinkLostError, TransferError
from agents.transfer.framed_link import FramedLink
from agents.transfer.meeting import LinkAddress

_RETRY_S = 0.05
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(LinkReply).decode
T = TypeVar("T")


def dial(to: SidecarAddress, stall_s: float) -> FramedLink:
    """Opens a link to another sidecar. Raises LinkLostError."""
    address = LinkAddress(to.host, to.port, to.token)
    return FramedLink(address.connect(stall_s, to.token if to.is_encrypted else b""), MAX_MESSAGE_BYTES)


def offer(to: SidecarAddress, message: Offer, stall_s: float) -> None:
    """Has another sidecar pull a tensor. Raises TransferError."""
    link = dial(to, stall_s)
    try:
        link.send(_encode(message))
        reply = _decode(link.receive()[0])
        link.receive_piece(0, None)
        if reply.answer != "pulled":
            raise BadPieceError(reply.reason)
    finally:
        link.close()


class Puller:
    """One pull, as a client of the sidecar's book; for one thread. It makes room before it asks for bytes: where there
    is none, they stay with their producer, and no link waits."""

    def __init__(self, desk: Desk, pull: Pull) -> None:
        self._desk = desk
        self._pull = pull
        self._answers: SimpleQueue[ToTensorClient] = SimpleQueue()
        self._client = desk.join(LINKS, self._answers.put)
        self._consumer = secrets.token_hex(16)
        self._link: FramedLink | None = None
        self._index = 0
        """Of the chunk that comes next."""
        self._asked = 0
        """Chunks that were asked for over this link, or came before it."""

    def run(self) -> None:
        """Whoever waits for the tensor here gets its chunks, or why there are none."""
        error: TransferError | None = None
        try:
            self._run()
        except TransferError as failure:
            error = failure
        except msgspec.MsgspecError as failure:
            error = BadPieceError(f"the sidecar at {self._pull.source} is not understood: {failure}")
        finally:
            self._hang_up()
            with self._desk.change() as book:
                book.pull_ended(self._pull, error)
            self._desk.lost(self._client, time.monotonic())
            with self._desk.change() as book:
                book.bury(self._client)

    def _run(self) -> None:
        reply = self._over_link(self._look)
        if reply.answer != "spec" or reply.spec is None:
            raise _error(reply)
        granted = self._create(reply.spec, reply.chunk_bytes)
        if reply.spec.is_stream:
            self._pull_stream()
        else:
            self._pull_whole(granted, reply.chunk_bytes)

    def _pull_whole(self, granted: Granted, part: int) -> None:
        """Several chunks are under way, each to its place in the slab."""
        count = -(-granted.size // max(1, part))
        while self._index < count:
            at = self._index * part
            extent = Extent(granted.offset + at, min(part, granted.size - at))
            ahead = min(self._desk.settings.credit, count - self._index)
            self._over_link(lambda link: self._receive(link, ahead, lambda size: self._place(extent, size)))  # noqa: B023
            self._commit(extent.size)
        with suppress(TransferError):  # all of it is here; the other end waits a while and forgets
            self._over_link(lambda link: self._receive(link, 1, lambda _: None))

    def _pull_stream(self) -> None:
        """One chunk is under way: how large it is, and so the room for it, is known only when it comes."""
        while True:
            came: list[bytearray] = []
            self._over_link(lambda link: self._receive(link, 1, lambda size: self._keep(came, size)))  # noqa: B023
            if not came:
                break
            self._ask(ClaimChunk(0, self._pull.name, self._index, len(came[0])))
            granted = self._granted()
            self._desk.bytes_of(Extent(granted.offset, granted.size))[:] = came[0]
            self._commit(granted.size)
        self._ask(EndStream(0, self._pull.name))
        self._answer()

    def _place(self, extent: Extent, size: int) -> memoryview:
        if size != extent.size:
            raise BadPieceError(f"chunk {self._index} has {size} bytes, not {extent.size}")
        return self._desk.bytes_of(extent)

    def _keep(self, came: list[bytearray], size: int) -> memoryview:
        if size > self._desk.settings.chunk_bytes:
            raise BadPieceError(f"a chunk of {size} bytes is larger than {self._desk.settings.chunk_bytes}")
        came[:] = [bytearray(size)]  # in place of one that did not come whole
        return memoryview(came[0])

    # Over the link.

    def _over_link(self, use: Callable[[FramedLink], T]) -> T:
        """Uses the link, and another one where it breaks, for as long as the other end waits. Raises TransferError."""
        give_up_s: float | None = None
        while True:
            try:
                if self._link is None:
                    self._link = dial(self._pull.source, self._desk.settings.stall_s)
                    self._asked = self._index
                return use(self._link)
            except LinkLostError:
                self._hang_up()
                give_up_s = give_up_s or time.monotonic() + self._desk.settings.stall_s
                if time.monotonic() >= give_up_s:
                    raise
                time.sleep(_RETRY_S)

    def _look(self, link: FramedLink) -> LinkReply:
        link.send(_encode(Look(self._pull.remote_name, self._pull.wait_s)))
        message, _ = link.receive()
        link.receive_piece(0, None)
        return _decode(message)

    def _receive(self, link: FramedLink, ahead: int, place: Callable[[int], memoryview | None]) -> None:
        """Receives the next chunk to where `place` has it for its size; nothing where there are no more. `ahead`:
        chunks to be asked for, this one included."""
        while self._asked < self._index + ahead:
            link.send(_encode(Take(self._pull.remote_name, self._consumer, self._asked, self._index)))
            self._asked += 1
        message, size = link.receive()
        reply = _decode(message)
        if reply.answer == "chunk" and (memory := place(size)) is not None:
            link.receive_piece(size, lambda: nullcontext((memory,)))
            return
        link.receive_piece(size, None)
        if reply.answer != "ended":
            raise _error(reply)

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    # As a client of the book.

    def _create(self, spec: TensorSpec, part: int) -> Granted:
        settings = self._desk.settings
        terms = CreateTensor(
            0, self._pull.name, spec, self._pull.consumers, settings.pulled_keep_s, settings.pulled_ahead
        )
        with self._desk.change() as book:
            book.create_pulled(self._client, terms, time.monotonic(), part)
        return self._granted()

    def _commit(self, size: int) -> None:
        self._ask(CommitChunk(0, self._pull.name, self._index, size))
        self._answer()
        self._index += 1

    def _ask(self, message: Asked) -> None:
        with self._desk.change() as book:
            book.ask(self._client, message, time.monotonic())

    def _granted(self) -> Granted:
        answer = self._answer()
        assert isinstance(answer, Granted)  # noqa: S101
        return answer

    def _answer(self) -> ToTensorClient:
        """The answer to what was asked, when there is one. Raises TransferError."""
        answer = self._answers.get()
        if isinstance(answer, TensorRefused):
            raise error_of(answer.fault, answer.reason)
        return answer


def _error(reply: LinkReply) -> TransferError:
    return (BlobGoneError if reply.answer == "gone" else BadPieceError)(reply.reason)
