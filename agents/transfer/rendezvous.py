"""Where the ends of links and edges find each other: a small TCP store that the first worker of an instance hosts."""

import re
import socket
import time
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from agents.transfer.errors import LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.meeting import LinkAddress, LinkListener

_PLACE = re.compile(r"^\[\S+:\d+\] ")


class Rendezvous:
    """Hosts the store until closed. It holds addresses of ends and nothing else."""

    def __init__(self, interface: str) -> None:
        """`interface`: address to listen on. Raises OSError when it is not of this machine."""
        with socket.create_server((interface, 0)) as listening:
            self.host, self.port = interface, int(listening.getsockname()[1])
            # the store owns the descriptor from here on; left to itself it would listen on every interface
            self._store: TCPStore | None = TCPStore(
                interface, self.port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
            )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def close(self) -> None:
        self._store = None


def join(host: str, port: int, timeout_s: float) -> TCPStore:
    """Joins the store of a rendezvous, from any node. Raises LinkLostError where there is none."""
    try:
        return TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    except (RuntimeError, TimeoutError) as error:
        raise LinkLostError(f"no rendezvous at {host}:{port} within {timeout_s:g} s ({error})") from error


def first_line(error: Exception) -> str:
    """Shortens what torch says: without the place in its sources and its advice."""
    line = str(error).partition("\n")[0]
    return _PLACE.sub("", line).partition(" This is typically caused")[0][:300]


def accept(name: str, at: tuple[str, int], interface: str, stall_s: float, secret: bytes = b"") -> LinkEnd:
    """Makes the end of a link that waits for the other, which finds it under `name` at the rendezvous `at` (host,
    port). `secret`: given to both ends, who encrypt; empty: they do not. Raises LinkLostError where nobody comes who
    knows of it."""
    end_s = time.monotonic() + stall_s
    try:
        listener = LinkListener(interface)
        with listener.listening as listening:
            address = listener.address
            join(*at, stall_s).set(name, f"{address.host} {address.port} {address.token.hex()}")
            while (left_s := end_s - time.monotonic()) > 0:
                listening.settimeout(left_s)
                if (end := listener.admit(listening.accept()[0], stall_s, secret)) is not None:
                    return end
    except (OSError, RuntimeError) as error:
        raise LinkLostError(first_line(error)) from error
    raise LinkLostError(f"the other end did not come within {stall_s:g} s")


def connect(name: str, at: tuple[str, int], stall_s: float, secret: bytes = b"") -> LinkEnd:
    """Makes the end of a link that looks for the other. `at`: host and port of the rendezvous. `secret`: as of
    `accept`. Raises LinkLostError."""
    try:
        store = join(*at, stall_s)
        host, port, token = store.get(name).decode("ascii").split(" ")
        store.delete_key(name)
        return LinkAddress(host, int(port), bytes.fromhex(token)).connect(stall_s, secret)
    except (OSError, RuntimeError, ValueError) as error:
        raise LinkLostError(first_line(error)) from error
