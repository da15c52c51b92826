"""Sockets between the processes of a node, and who is at their other end."""

import errno
import os
import socket
import struct
import sys

from agents.transfer.errors import LinkLostError

SOCKET_BYTES = 1 << 20
"""Of messages that wait to be read: far more than a process has calls under way."""
_SO_PEERPIDFD = 77
"""The process that connected, whatever its number is used for now. Linux 6.5; Python has no name for it."""
_CREDENTIALS = struct.Struct("iII")


def connect(name: str) -> socket.socket:
    """Connects to the socket of that name. Raises LinkLostError where there is none, or it is another user's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(f"\0{name}")
        if _peer(connection)[1] != os.getuid():
            raise LinkLostError(f"the sidecar {name} is another user's")
    except OSError as error:
        connection.close()
        raise LinkLostError(f"no sidecar {name} on this node: {error}") from error
    except LinkLostError:
        connection.close()
        raise
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    return connection


def peer_process(connection: socket.socket) -> int | None:
    """A descriptor, to be closed by the caller, that can be read once the process at the other end is dead. None where
    it is another user's, or dead already."""
    process, user = _peer(connection)
    if user != os.getuid():
        return None
    try:
        return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4), sys.byteorder)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            return None
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        return None


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Number of the process that connected, and of its user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return process, user
