"""Takes the rows that come with requests to an echo, as a decoder's first stage does, and looks at nothing but their
shape."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from agents.messages.component_work import PromptRows
from agents.messages.to_scheduler import Generate
from agents.tensors.node_tensors import NodeTensors
from agents.transfer.errors import TransferError

_WAIT_S = 10.0
_THREADS = 16


class GivenRowsError(Exception):
    """Rows are not there, or not those that were announced."""


class GivenRowsTaker:
    """Make it on a running loop."""

    def __init__(self, sidecar: str) -> None:
        """`sidecar`: its name on this node."""
        self._tensors = NodeTensors(sidecar, "echo", writes=False)
        self._threads = ThreadPoolExecutor(_THREADS, "take")

    async def take(self, request: Generate) -> None:
        """Take all of a request's rows, once each. Raises GivenRowsError."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, self._take, each) for each in request.given))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._tensors.close()

    def _take(self, given: PromptRows) -> None:
        """Raises GivenRowsError."""
        name = given.tensor.name
        try:
            spec = self._tensors.use(lambda tensors: tensors.take(name, given.tensor.source, wait_s=_WAIT_S).spec)
        except TransferError as error:
            raise GivenRowsError(str(error)) from error
        if spec.dtype != "float32" or len(spec.shape) != 2 or spec.shape[0] != given.rows:
            raise GivenRowsError(f"{name} is {spec.dtype} {spec.shape}, not {given.rows} rows of float32")
