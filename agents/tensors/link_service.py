"""What a sidecar gives to a sidecar of another node, over a link that the other one opened."""

import os
import select
import time
from collections import deque

import msgspec

from agents.messages.to_sidecar import MAX_MESSAGE_BYTES, Look, Offer, Take, ToSidecarByLink
from agents.messages.to_tensor_client import LinkReply
from agents.tensors.desk import Desk
from agents.tensors.slab import Extent
from agents.transfer.errors import BadPieceError, BlobGoneError
from agents.transfer.framed_link import FramedLink
from agents.transfer.link import LinkEnd

_MAX_CREDITS = 64
_TICK_S = 0.25
"""A wait that ends is noticed as late as this."""
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(ToSidecarByLink).decode


class LinkService:
    """For the thread of one connection. Chunks go from the slab to the system without a copy."""

    def __init__(self, desk: Desk, end: LinkEnd) -> None:
        self._desk = desk
        self._frames = FramedLink(end, MAX_MESSAGE_BYTES)
        self._waiting: deque[tuple[Look | Take | Offer, float]] = deque()
        """What is to be answered, in turn, and when it was asked."""

    def serve(self) -> None:
        """Answers until the link ends. Raises TransferError and msgspec.MsgspecError."""
        poll = select.poll()
        poll.register(self._frames.fileno(), select.POLLIN)
        try:
            with self._desk.bell() as bell:
                poll.register(bell, select.POLLIN)
                while True:
                    if not self._answer_one():
                        self._listen(poll, bell)
        finally:
            with self._desk.change() as book:
                book.link_lost(self, time.monotonic() + self._desk.settings.stall_s)

    def _listen(self, poll: select.poll, bell: int) -> None:
        """Waits until something is asked, or may be answered now."""
        for ready, _ in poll.poll(0 if self._frames.has_more() else 1000 * _TICK_S):
            if ready == bell:
                os.eventfd_read(bell)
            else:
                self._receive()
        while self._frames.has_more():
            self._receive()

    def _receive(self) -> None:
        message, size = self._frames.receive()
        self._frames.receive_piece(0, None)
        asked = _decode(message)
        if size or len(self._waiting) >= _MAX_CREDITS:
            raise BadPieceError(f"who takes has {_MAX_CREDITS} credits at most, and sends no chunks")
        self._waiting.append((asked, time.monotonic()))

    def _answer_one(self) -> bool:
        """Answers what was asked first; False while there is no answer."""
        if not self._waiting:
            return False
        asked, at_s = self._waiting[0]
        try:
            answer = self._answer(asked, at_s)
        except (BlobGoneError, BadPieceError) as error:
            answer = LinkReply("gone" if isinstance(error, BlobGoneError) else "bad", str(error)), None
        if answer is None:
            return False
        reply, extent = answer
        self._waiting.popleft()
        if extent is None:
            self._frames.send(_encode(reply))
            return True
        try:
            self._frames.send(_encode(reply), (self._desk.bytes_of(extent),))
        finally:
            with self._desk.change() as book:
                book.sent(extent)
        return True

    def _answer(self, asked: Look | Take | Offer, at_s: float) -> tuple[LinkReply, Extent | None] | None:
        with self._desk.change() as book:
            match asked:
                case Take():
                    return book.take_over_link(self, asked, self._done(asked))
                case Offer():
                    book.pull(asked.name, asked.source, asked.consumers, self._desk.settings.pulled_keep_s)
                    return LinkReply("pulled"), None
                case Look():
                    if (reply := book.look(asked.name)) is not None:
                        return reply, None
                    if time.monotonic() - at_s >= asked.wait_s:
                        raise BlobGoneError(f"no tensor {asked.name} has come within {asked.wait_s:g} s")
                    return None

    def _done(self, asked: Take) -> int:
        """Chunks that the consumer needs no more, as it said last."""
        takes = (each for each, _ in self._waiting if isinstance(each, Take) and each.consumer == asked.consumer)
        return max(each.done for each in takes)
