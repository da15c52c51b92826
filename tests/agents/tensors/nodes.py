"""A node of a test: its sidecar, what its processes have, and what is left of it."""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agents.tensors.client import TensorClient
from agents.tensors.settings import SidecarSettings
from agents.tensors.sidecar import Sidecar

PAGE = 4096
SETTINGS = SidecarSettings(256 * PAGE, 128 * PAGE, 64 * PAGE, chunk_bytes=16 * PAGE, stall_s=3.0)
"""Of nodes whose links a busy machine does not make them give up; some wait for as long."""
IMPATIENT = replace(SETTINGS, stall_s=1.0)
"""For who waits until a link is given up."""
PATIENCE_S = 60


@dataclass
class Node:
    name: str
    sidecar: Sidecar
    clients: list[TensorClient] = field(default_factory=list)

    def client(self, process: str = "executor", *, writes: bool = True) -> TensorClient:
        self.clients.append(TensorClient(self.name, process, writes=writes))
        return self.clients[-1]

    @property
    def held_bytes(self) -> int:
        with self.sidecar._desk.change() as book:
            return book.slab.size - book.slab.free_bytes

    @property
    def tensors(self) -> int:
        with self.sidecar._desk.change() as book:
            return book.tensors

    @property
    def waiting(self) -> int:
        """Tensors that somebody waits for."""
        with self.sidecar._desk.change() as book:
            return len(book._takes)

    @property
    def is_looked_at(self) -> bool:
        """Whether a process holds memory."""
        with self.sidecar._desk.change() as book:
            return any(holder._times for holder in book._clients.values())

    @property
    def known_processes(self) -> int:
        """That may still be answered."""
        return len(self.sidecar._desk._receivers)


@contextmanager
def run_node(settings: SidecarSettings) -> Iterator[Node]:
    name = f"medley-test-{secrets.token_hex(8)}"
    sidecar = Sidecar(settings, name, "127.0.0.1")
    thread = threading.Thread(target=sidecar.run)
    thread.start()
    made = Node(name, sidecar)
    try:
        yield made
    finally:  # also of a test that fails: its process would not end
        for client in made.clients:
            client.close()
        sidecar.stop()
        thread.join()
        sidecar.close()


def wait_until(condition: Callable[[], object]) -> None:
    """For what another thread or process does next."""
    changed = threading.Event()
    for _ in range(int(PATIENCE_S / 0.02)):
        if condition():
            return
        changed.wait(0.02)
    raise AssertionError("it did not come to that")
