"""A process's end of a connection to the owner of a pool."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from agents.engines.errors import EngineError
from agents.kv_pool.address import address
from agents.kv_pool.messages import PACKET_BYTES, Asked, encode

Answer = TypeVar("Answer", bound=msgspec.Struct)


class PoolLostError(EngineError):
    """The owner of the pool is gone: with it goes all that engines keep there."""


class PoolConnection:
    """Thread-safe: one question at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._asking = threading.Lock()

    def tell(self, message: Asked) -> None:
        """Say what is not answered. Raises PoolLostError."""
        with self._asking:
            self._send(message)

    def ask(self, question: Asked, answer: type[Answer]) -> Answer:
        """Raises PoolLostError."""
        with self._asking:
            self._send(question)
            try:
                packet = self._socket.recv(PACKET_BYTES)
            except OSError as error:
                raise PoolLostError(f"the owner of the KV cache pool does not answer: {error}") from error
        if not packet:
            raise PoolLostError("the owner of the KV cache pool has ended the connection")
        return msgspec.msgpack.decode(packet, type=answer)

    def _send(self, message: Asked) -> None:
        try:
            self._socket.send(encode(message))
        except OSError as error:
            raise PoolLostError(f"the owner of the KV cache pool does not answer: {error}") from error


@contextmanager
def connected(path: Path, timeout_s: float | None = None) -> Iterator[socket.socket]:
    """Connect to the owner that listens at `path`. `timeout_s`: of each answer; None: however long it takes. Raises
    PoolLostError where nobody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(timeout_s)
        try:
            with address(path) as name:
                connection.connect(name)
        except OSError as error:
            raise PoolLostError(f"{path}: nobody has a KV cache pool there: {error}") from error
        yield connection
