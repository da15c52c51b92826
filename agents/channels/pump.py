"""Feeds the messages of a ZeroMQ socket to a handler on the running asyncio loop.

pyzmq's own asyncio sockets make a future for every message. Here one callback drains the socket: an order of magnitude
less per token. The socket's file descriptor is edge-triggered, and any call on the socket may swallow the edge (ZeroMQ
guide, "zmq_getsockopt: ZMQ_FD"): whoever sends calls `poke` afterwards.
"""

import asyncio
from collections.abc import Callable

import zmq

_BATCH = 256
"""Messages handled before others on the loop get their turn."""


class Pump:
    def __init__(self, socket: "zmq.Socket[bytes]", receive: Callable[[], None]) -> None:
        """`receive` takes one message off the socket with NOBLOCK and handles it; it lets `zmq.Again` out."""
        self._socket = socket
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._is_due = False
        self._is_closed = False
        self._loop.add_reader(self._fd, self._drain)
        self.poke()

    def poke(self) -> None:
        """See soon whether something arrived."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._drain)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._fd)

    def _drain(self) -> None:
        self._is_due = False
        for _ in range(_BATCH):
            if self._is_closed:
                return
            try:
                self._receive()
            except zmq.Again:
                return
        self.poke()
