"""The sidecar of a node: processes of the node come by a socket without a file, sidecars of other nodes by links.

Theory of operation. One thread hears the processes of the node, whose messages say where bytes are and never hold any.
Each link, each pull and each push has a thread of its own, since those move bytes. The book decides, one change at a
time (`desk.py`). A connection that ends says that nobody is to be answered any more; only the end of the process itself
says that nobody writes or reads what it held.
"""

import logging
import os
import select
import socket
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from agents.messages.to_sidecar import (
    MAX_MESSAGE_BYTES,
    Attach,
    LeaveTensor,
    Offer,
    PushTensor,
    ReleaseChunk,
    SidecarAddress,
    ToSidecar,
)
from agents.messages.to_tensor_client import Accepted, Attached, TensorRefused, ToTensorClient
from agents.tensors.desk import Desk
from agents.tensors.entry import Pull
from agents.tensors.faults import fault_of
from agents.tensors.link_service import LinkService
from agents.tensors.local_socket import SOCKET_BYTES, peer_process
from agents.tensors.puller import Puller, offer
from agents.tensors.settings import SidecarSettings
from agents.transfer.errors import BadPieceError, LinkLostError, StoreFullError, TransferError
from agents.transfer.meeting import LinkListener

_log = logging.getLogger(__name__)
_MAX_PROCESSES = 256
_MAX_LINKS = 256
_MAX_CALLS = 512
"""That a process may have under way."""
_TICK_S = 0.25
"""A deadline that passes is noticed as late as this."""
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(ToSidecar).decode


class _Process:
    """A process of the node, for as long as it may hold something."""

    def __init__(self, connection: socket.socket, life: int) -> None:
        self.connection = connection
        self.life = life
        """Descriptor that can be read once the process is dead."""
        self.client: int | None = None
        self.calls = 0
        """Under way."""

    def send(self, answer: ToTensorClient) -> None:
        """Never waits: a process that does not read its answers is hung up on."""
        self.calls -= 1
        self._send(_encode(answer))

    def attached(self, answer: Attached, descriptor: int) -> None:
        self._send(_encode(answer), [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))])

    def _send(self, message: bytes, along: "Sequence[tuple[int, int, array[int]]]" = ()) -> None:
        try:
            self.connection.sendmsg([message], along, socket.MSG_DONTWAIT)
        except OSError as error:
            _log.warning("a process of this node does not take its answers: %s", error)
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)


class Sidecar:
    """Listens once it is made; `run` serves."""

    def __init__(self, settings: SidecarSettings, name: str, interface: str) -> None:
        """`name`: by which processes of the node find it. `interface`: this node's address on the private network.
        Raises OSError where the name is taken, or the address not of this machine, and StoreFullError where the node
        has no memory for the slab."""
        self._settings = settings
        self._links = LinkListener(interface)
        at = self._links.address
        self.address = SidecarAddress(at.host, at.port, at.token, settings.is_encrypted)
        self._local = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._local.bind(f"\0{name}")
        self._desk = Desk(settings, self._start_pull)
        with self._desk.change() as book:
            book.address = self.address
        self._read_only = os.open(f"/proc/self/fd/{self._desk.segment.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        self._local.listen()
        for listening in (self._local, self._links.listening):
            listening.setblocking(False)  # who knocked may be gone again
        self._free_links = threading.Semaphore(_MAX_LINKS)
        self._free_pulls = threading.Semaphore(settings.max_pulls)
        self._poll = select.poll()
        self._ready: dict[int, Callable[[], None]] = {}
        """What to do when a descriptor can be read."""
        self._processes: set[_Process] = set()
        self._is_over = False
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._watch(self._stop, self._end)
        self._watch(self._local.fileno(), self._let_in)
        self._watch(self._links.listening.fileno(), self._let_link_in)

    def run(self, owner: int | None = None) -> None:
        """Serves until it is stopped, or the process `owner` is dead."""
        if owner is not None:
            self._watch(os.pidfd_open(owner), self._end)
        next_tick_s = 0.0
        while not self._is_over:
            for ready, _ in self._poll.poll(1000 * _TICK_S):
                self._ready[ready]()
            if (now_s := time.monotonic()) >= next_tick_s:
                next_tick_s = now_s + _TICK_S
                with self._desk.change() as book:
                    book.pass_time(now_s)

    def stop(self) -> None:
        """Has `run` return; from any thread, or a handler of signals."""
        os.eventfd_write(self._stop, 1)

    def close(self) -> None:
        """Hangs up on the processes of the node, behind `run`. All the rest ends with this process."""
        for process in self._processes:
            process.connection.close()
            os.close(process.life)
        self._local.close()
        self._links.listening.close()
        for descriptor in (self._read_only, self._stop):
            os.close(descriptor)

    def _end(self) -> None:
        self._is_over = True

    def _watch(self, descriptor: int, act: Callable[[], None]) -> None:
        self._ready[descriptor] = act
        self._poll.register(descriptor, select.POLLIN)

    def _forget(self, descriptor: int) -> None:
        del self._ready[descriptor]
        self._poll.unregister(descriptor)

    # Processes of the node.

    def _let_in(self) -> None:
        try:
            connection = self._local.accept()[0]
        except OSError as error:  # gone again, or the system has no descriptor left
            _log.debug("nobody came: %s", error)
            return
        life = peer_process(connection) if len(self._processes) < _MAX_PROCESSES else None
        if life is None:  # of another user, dead already, or one too many
            connection.close()
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        process = _Process(connection, life)
        self._processes.add(process)
        self._watch(connection.fileno(), partial(self._hear, process))

    def _hear(self, process: _Process) -> None:
        try:
            # a descriptor that somebody passes is closed by the system, since nobody asks for it
            message = process.connection.recv(MAX_MESSAGE_BYTES + 1)
            if not message:
                raise LinkLostError("it has ended, or hung up")
            if len(message) > MAX_MESSAGE_BYTES:
                raise BadPieceError("a message is too large")
            self._obey(process, _decode(message))
        except (TransferError, OSError, msgspec.MsgspecError) as error:
            _log.debug("a process of this node is gone: %s", error)
            self._lost(process)

    def _obey(self, process: _Process, message: ToSidecar) -> None:
        """Raises BadPieceError for what no client sends."""
        if isinstance(message, Attach):
            self._attach(process, message)
            return
        if process.client is None:
            raise BadPieceError("who asks has to attach before")
        with self._desk.change() as book:
            match message:
                case ReleaseChunk():
                    book.release(process.client, message)
                case LeaveTensor():
                    book.leave(message)
                case _:
                    process.calls += 1
                    if process.calls > _MAX_CALLS:
                        raise BadPieceError(f"{_MAX_CALLS} calls may be under way")
                    if isinstance(message, PushTensor):
                        threading.Thread(target=self._push, args=(process, message), daemon=True).start()
                    else:
                        book.ask(process.client, message, time.monotonic())

    def _attach(self, process: _Process, message: Attach) -> None:
        if process.client is not None:
            raise BadPieceError("it is attached already")
        process.client = self._desk.join(f"process {message.name}", process.send)
        settings = self._settings
        answer = Attached(message.call, settings.slab_bytes, settings.chunk_bytes, self.address)
        process.attached(answer, self._desk.segment.descriptor if message.writes else self._read_only)

    def _lost(self, process: _Process) -> None:
        """The connection is over. What the process holds comes back when it is dead, which may be now. Where it holds
        nothing it is forgotten at once: a process that lives on may come again and again."""
        self._forget(process.connection.fileno())
        process.connection.close()
        if process.client is not None:
            self._desk.lost(process.client, time.monotonic())
            with self._desk.change() as book:
                is_awaited = not book.holds_nothing(process.client)
            if is_awaited:
                self._watch(process.life, partial(self._died, process))
                return
        self._bury(process)

    def _died(self, process: _Process) -> None:
        self._forget(process.life)
        self._bury(process)

    def _bury(self, process: _Process) -> None:
        os.close(process.life)
        self._processes.remove(process)
        if process.client is not None:
            with self._desk.change() as book:
                book.bury(process.client)

    # Other nodes.

    def _let_link_in(self) -> None:
        try:
            connection = self._links.listening.accept()[0]
        except OSError as error:
            _log.debug("nobody came: %s", error)
            return
        if self._free_links.acquire(blocking=False):
            threading.Thread(target=self._serve_link, args=(connection,), name="tensor link", daemon=True).start()
        else:
            connection.close()

    def _serve_link(self, connection: socket.socket) -> None:
        try:
            secret = self._links.address.token if self._settings.is_encrypted else b""
            if (end := self._links.admit(connection, self._settings.stall_s, secret)) is not None:
                try:
                    LinkService(self._desk, end).serve()
                finally:
                    end.close()
        except (TransferError, OSError, msgspec.MsgspecError) as error:
            _log.debug("a link of another sidecar ends: %s", error)
        finally:
            self._free_links.release()

    def _start_pull(self, pull: Pull) -> None:
        threading.Thread(target=self._run_pull, args=(pull,), name="tensor pull", daemon=True).start()

    def _run_pull(self, pull: Pull) -> None:
        if not self._free_pulls.acquire(blocking=False):
            error = StoreFullError(f"{self._settings.max_pulls} tensors are being pulled already")
            with self._desk.change() as book:
                book.pull_ended(pull, error)
            return
        try:
            Puller(self._desk, pull).run()
        finally:
            self._free_pulls.release()

    def _push(self, process: _Process, message: PushTensor) -> None:
        try:
            offer(message.to, Offer(message.name, self.address, message.consumers), self._settings.stall_s)
            answer: ToTensorClient = Accepted(message.call)
        except TransferError as error:
            answer = TensorRefused(message.call, fault_of(error), str(error))
        with self._desk.change():  # so that answers of a process do not come between each other
            process.send(answer)
