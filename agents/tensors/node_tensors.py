"""The client of a node's sidecar that outlives the sidecar, which nodes start again when it dies."""

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from agents.tensors.client import TensorClient
from agents.transfer.errors import LinkLostError

T = TypeVar("T")


class NodeTensors:
    """For any thread. It connects when it is first used."""

    def __init__(self, sidecar: str, process: str, *, writes: bool = True) -> None:
        """As of a `TensorClient`."""
        self._sidecar, self._process, self._writes = sidecar, process, writes
        self._turn = Lock()
        self._client: TensorClient | None = None

    def use(self, do: Callable[[TensorClient], T]) -> T:
        """Do something with the node's sidecar, and once more where that was lost: it is started again, and though what
        lay there is gone, what was asked for may come yet. Raises TransferError, also where another node's was lost:
        that is no reason to part with this one, which other threads use."""
        client = self._after(None)
        try:
            return do(client)
        except LinkLostError:
            if not client.is_gone():
                raise
            return do(self._after(client))

    def close(self) -> None:
        with self._turn:
            if self._client is not None:
                self._client.close()

    def _after(self, lost: TensorClient | None) -> TensorClient:
        """The client, or a new one where that is lost. Raises LinkLostError while there is no sidecar."""
        with self._turn:
            if self._client is None or self._client is lost:
                self._client = TensorClient(self._sidecar, self._process, writes=self._writes)
                if lost is not None:
                    lost.close()
            return self._client
