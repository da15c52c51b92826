"""The owner of a pool: it has the memory, and lends blocks of it to engines of other processes on this machine. Of a
unit that runs it also says whose turn it is, and how many blocks each member's scheduler may count on.

The memory is a file without a name, which engines get with the answer to their first message: it is gone with the last
process that has it. A connection that ends says nothing of a process, which may still write: its blocks come back when
the process is known to be dead.
"""

import mmap
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agents.kv_pool.address import address
from agents.kv_pool.block_ledger import BlockLedger
from agents.kv_pool.member_shape import MemberShape
from agents.kv_pool.messages import (
    BLOCKS_A_PACKET,
    PACKET_BYTES,
    Asked,
    Give,
    Go,
    Join,
    Joined,
    Left,
    Needs,
    Over,
    Quota,
    Ready,
    Take,
    Taken,
    TakeTurns,
    Watch,
    Watched,
    decode_asked,
    encode,
)
from agents.unit.running_unit import RunningUnit
from policies.shared_units.dispatch import JobPhase

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer (`SO_PEERCRED`)."""
_BEAT_S = 1.0
"""Between two looks at what is due by the clock."""
_PAUSE_S = 0.05
"""Until a connection that could not be accepted is tried again."""


@dataclass(slots=True, eq=False)
class _Peer:
    """A connection of a process, which may be over."""

    socket: socket.socket
    process: int
    """A descriptor that can be read once the process is dead."""
    first: Join | TakeTurns | Watch | None = None
    """What it has said first: who it is."""


class PoolOwner:
    """Use: `serve`, or `start` to have a thread do so, and `close` when the engines are gone. `lock` is held while the
    ledger changes: who changes quotas holds it, too."""

    def __init__(
        self,
        ledger: BlockLedger,
        blocks: int,
        block_bytes: int,
        path: Path,
        unit: RunningUnit | None = None,
        shapes: Sequence[MemberShape] = (),
    ) -> None:
        """`path`: of the socket, in a folder that no other user can enter. `unit`: with the ledger's grants, whose
        members' schedulers and turns are served, too; `shapes`: of its members. Raises OSError, for memory that the
        machine does not have, too."""
        self._unit, self._shapes = unit, tuple(shapes)
        self.lock = threading.Lock()
        self._ledger, self._size = ledger, Joined(blocks, block_bytes)
        self._memory = os.memfd_create("medley-kv-pool", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(self._memory, 0, max(blocks * block_bytes, mmap.PAGESIZE))
        except OSError:
            os.close(self._memory)
            raise
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with address(path) as name:
            self._listener.bind(name)
        self._listener.listen()
        self._listener.setblocking(False)
        self._wake, self._woken = os.pipe()
        self._all: set[_Peer] = set()
        self._peers: dict[tuple[type, int], _Peer] = {}
        """What it said first, and its member → who that is; of engines the process that has, or may have, blocks."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self.serve, name="kv-pool", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Have `serve` return. Signal handlers may call it."""
        os.write(self._woken, b"x")

    def close(self) -> None:
        """End the connections; engines that still run keep the memory."""
        if self._thread.is_alive():
            self.stop()
            self._thread.join()
        self._selector.close()
        for peer in self._all:
            peer.socket.close()
            os.close(peer.process)
        self._listener.close()
        self._path.unlink(missing_ok=True)
        for descriptor in (self._wake, self._woken, self._memory):
            os.close(descriptor)

    def serve(self) -> None:
        """Return once `stop` was called."""
        while True:
            for key, _ in self._selector.select(None if self._unit is None else _BEAT_S):
                if key.data is None:
                    return
                key.data()
            if self._unit is not None:
                self._begin_jobs(self._unit)

    def _begin_jobs(self, unit: RunningUnit) -> None:
        with self.lock:
            members = list(unit.begin(time.monotonic()))
        for member in members:
            peer = self._peers[TakeTurns, member]
            try:
                self._say(peer, Go())
            except OSError:
                self._part(peer)  # its process is dead, and its turn is over

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            # Such as no descriptor that is free: who is connected is served on, and not at the price of a whole core.
            time.sleep(_PAUSE_S)
            return
        pid, user, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user != os.getuid():
            connection.close()
            return
        try:
            process = os.pidfd_open(pid)
        except OSError:
            # It is dead, in another namespace of processes (its number is 0 here), or there is no descriptor for it:
            # whose end is not seen gets no blocks.
            connection.close()
            return
        peer = _Peer(connection, process)
        self._all.add(peer)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(peer))

    def _read(self, peer: _Peer) -> None:
        try:
            packet = peer.socket.recv(PACKET_BYTES)
            if packet:
                self._hear(peer, decode_asked(packet))
                return
        except (OSError, ValueError, msgspec.DecodeError):
            # Who breaks the protocol is not heard any more: an engine keeps its blocks for as long as it lives.
            pass
        self._part(peer)

    def _hear(self, peer: _Peer, asked: Asked) -> None:
        """Raises ValueError for what the peer may not ask."""
        if isinstance(asked, Join | TakeTurns | Watch):
            self._welcome(peer, asked)
            return
        with self.lock:
            answer = self._answer(peer.first, asked)
        if answer is not None:
            self._say(peer, answer)

    @staticmethod
    def _say(peer: _Peer, answer: Go | Taken | Quota | Watched) -> None:
        """Raises OSError, for a peer that reads no answers, too: nobody waits until it does."""
        peer.socket.send(encode(answer), socket.MSG_DONTWAIT)

    def _welcome(self, peer: _Peer, first: Join | TakeTurns | Watch) -> None:
        who = type(first), first.member
        if peer.first is not None or who in self._peers or not 0 <= first.member < self._ledger.members:
            raise ValueError(f"member {first.member} is none, or has a process already")
        if self._unit is None and not isinstance(first, Join):
            raise ValueError("nobody takes turns at this pool, and its quotas do not move")
        peer.first, self._peers[who] = first, peer
        if isinstance(first, Join):
            socket.send_fds(peer.socket, [encode(self._size)], [self._memory])
        elif isinstance(first, Watch) and self._unit is not None:
            shape, unit = self._shapes[first.member], self._unit
            with self.lock:
                quota = unit.renew(first.member, unit.grants.promised[first.member], 0)
            watched = Watched(shape.block_tokens(self._size.block_bytes), shape.units, unit.most(first.member), quota)
            self._say(peer, watched)

    def _answer(self, first: Join | TakeTurns | Watch | None, asked: Asked) -> Taken | Quota | None:
        """Raises ValueError for what is not asked by who said that first."""
        match first, asked:
            case Join(member), Give(blocks):
                self._ledger.give_back(member, blocks)
                return None
            case Join(member), Take(count):
                fits = 0 <= count <= min(self._ledger.left(member), BLOCKS_A_PACKET)
                taken = self._ledger.take(member, count) if fits else []
                return Taken(taken, self._ledger.left(member))
            case Join(member), Left():
                return Taken([], self._ledger.left(member))
            case TakeTurns(member), Ready(prompts) if self._unit is not None:
                self._unit.ask(member, JobPhase.PREFILL if prompts else JobPhase.DECODE, time.monotonic())
                return None
            case TakeTurns(member), Over() if self._unit is not None:
                self._unit.end(member, time.monotonic())
                return None
            case Watch(member), Needs(counted, wanted) if self._unit is not None:
                return Quota(self._unit.renew(member, counted, wanted))
        raise ValueError(f"{type(asked).__name__} is not for who said {type(first).__name__} first")

    def _part(self, peer: _Peer) -> None:
        """The connection is over; wait for the process, if it has, or may have, blocks."""
        self._selector.unregister(peer.socket)
        peer.socket.close()
        if isinstance(peer.first, Join):
            self._selector.register(peer.process, selectors.EVENT_READ, lambda: self._bury(peer))
            return
        self._forget(peer)
        if self._unit is None or peer.first is None:
            return
        with self.lock:
            if isinstance(peer.first, TakeTurns):
                self._unit.drop(peer.first.member)
            else:
                self._unit.leave(peer.first.member)

    def _bury(self, peer: _Peer) -> None:
        self._selector.unregister(peer.process)
        self._forget(peer)
        if peer.first is not None:
            with self.lock:
                self._ledger.reclaim([peer.first.member])

    def _forget(self, peer: _Peer) -> None:
        self._all.discard(peer)
        os.close(peer.process)
        if peer.first is not None:
            del self._peers[type(peer.first), peer.first.member]
