"""A process's connection to the sidecar of its node: calls with their answers, and the slab as this process sees it."""

import itertools
import socket
import struct
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from agents.messages.to_sidecar import MAX_MESSAGE_BYTES, Attach, LeaveTensor, ReleaseChunk, ToSidecar
from agents.messages.to_tensor_client import Attached, ChunkHere, TensorRefused, ToTensorClient
from agents.tensors.faults import error_of
from agents.tensors.local_socket import connect
from agents.transfer.errors import BadPieceError, LinkLostError
from agents.transfer.memory import Segment

_DESCRIPTOR = struct.Struct("i")
_MAX_CALLS = 480
"""Under way; more wait here. The sidecar hangs up on whoever has more than it allows."""
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(ToTensorClient).decode
_check = msgspec.msgpack.Decoder(ToSidecar).decode
"""As the sidecar reads it, which hangs up on whoever sends nonsense."""


class Calls:
    """For any thread. A thread of its own receives answers."""

    def __init__(self, sidecar: str, process: str, *, writes: bool) -> None:
        """Raises LinkLostError where there is no sidecar of that name."""
        self._connection = connect(sidecar)
        self._numbers = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._room = threading.BoundedSemaphore(_MAX_CALLS)
        self._leases: dict[object, None] = {}
        """What this process still looks at, or writes."""
        self._is_closing = False
        self._lost = ""
        try:
            self._send(_encode(Attach(0, process, writes)))
            self.attached, segment = self._receive_slab()
        except LinkLostError:
            self._connection.close()
            raise
        self.slab = segment.writable() if writes else segment.view()
        self.base = int(np.frombuffer(self.slab, np.uint8).__array_interface__["data"][0])
        """Address of the slab in this process."""
        threading.Thread(target=self._listen, name="tensor answers", daemon=True).start()

    def ask(self, kind: type[msgspec.Struct], *fields: object) -> Future[Any]:
        """Asks the sidecar. The answer raises TransferError where it refuses, or dies. Raises LinkLostError, and
        BadPieceError for what no sidecar would read."""
        number, future = next(self._numbers), Future[Any]()
        message = _encode(kind(number, *fields))
        try:
            _check(message)
        except msgspec.ValidationError as error:
            raise BadPieceError(f"{kind.__name__}{fields}: {error}") from error
        self._room.acquire()
        future.add_done_callback(lambda _: self._room.release())
        self._pending[number] = future
        try:
            if self._is_closing:
                raise LinkLostError("this client is closed")
            self._send(message)
        except LinkLostError as error:
            # the thread that receives may have found out already
            if self._pending.pop(number, None) is not None:
                future.set_exception(error)
            raise
        return future

    def lease(self, token: object) -> None:
        """Notes that memory is looked at until `release`."""
        self._leases[token] = None

    def forget(self, token: object) -> None:
        """Memory is the sidecar's again, by another word than `release`."""
        self._leases.pop(token, None)
        if self._is_closing and not self._leases:
            self._hang_up()

    def release(self, token: object, offset: int) -> None:
        """Memory is not looked at any more. Called by the garbage collector too, wherever that comes: it takes no
        lock."""
        with suppress(LinkLostError):  # then the sidecar is gone, and the memory with the last who holds it
            self._send(_encode(ReleaseChunk(offset)))
        self.forget(token)

    def leave(self, message: LeaveTensor) -> None:
        with suppress(LinkLostError):
            self._send(_encode(message))

    def close(self) -> None:
        """Hangs up behind the last thing that this process looks at: before that, nobody may write there."""
        self._is_closing = True
        if not self._leases:
            self._hang_up()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _send(self, message: bytes) -> None:
        try:
            self._connection.send(message)  # whole, and not mixed with another thread's
        except OSError as error:
            raise LinkLostError(f"the sidecar is gone: {self._lost or error}") from error

    def _receive_slab(self) -> tuple[Attached, Segment]:
        """The first answer, and the descriptor that comes with it. Raises LinkLostError."""
        try:
            message, passed, _, _ = self._connection.recvmsg(
                MAX_MESSAGE_BYTES, socket.CMSG_LEN(_DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC
            )
            answer = _decode(message)
        except (OSError, msgspec.MsgspecError) as error:
            raise LinkLostError(f"the sidecar does not let this process in: {error}") from error
        if not isinstance(answer, Attached) or len(passed) != 1:
            raise LinkLostError("the sidecar does not let this process in")
        return answer, Segment(_DESCRIPTOR.unpack(passed[0][2])[0])

    def _receive(self) -> ToTensorClient:
        """Raises LinkLostError, and MsgspecError for what is no answer."""
        try:
            message = self._connection.recv(MAX_MESSAGE_BYTES)
        except OSError as error:
            raise LinkLostError(f"the sidecar is gone: {error}") from error
        if not message:
            raise LinkLostError("the sidecar has ended, or hung up")
        answer: ToTensorClient = _decode(message)
        return answer

    def _listen(self) -> None:
        try:
            while True:
                self._settle(self._receive())
        except (LinkLostError, msgspec.MsgspecError) as error:
            self._lost = str(error)
            self._is_closing = True
            self._hang_up()
            for number in list(self._pending):
                if (future := self._pending.pop(number, None)) is not None:
                    future.set_exception(LinkLostError(self._lost))
        self._connection.close()

    def _settle(self, answer: ToTensorClient) -> None:
        future = self._pending.pop(answer.call)
        if isinstance(answer, TensorRefused):
            future.set_exception(error_of(answer.fault, answer.reason))
        else:
            future.set_result(answer)


def give_back(calls: Calls, future: Future[Any]) -> None:
    """Releases what an answer brings that nobody waits for any more."""
    if future.exception() is None and isinstance(answer := future.result(), ChunkHere):
        calls.release(None, answer.offset)
