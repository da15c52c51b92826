"""Where the ends of edges find each other: a small TCP store that one process of the instance hosts."""

import socket
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from agents.edges.errors import EdgeLostError


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

    def close(self) -> None:
        self._store = None


def join(host: str, port: int, timeout_s: float) -> TCPStore:
    """The store of a rendezvous, from any node. Raises EdgeLostError where there is none."""
    try:
        return TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    except (RuntimeError, TimeoutError) as error:
        raise EdgeLostError(f"no rendezvous at {host}:{port} within {timeout_s:g} s ({error})") from error
