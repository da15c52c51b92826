"""Work on a GPU that is recorded as a CUDA graph, and asked for as one."""

import logging
from collections.abc import Callable

import torch

_LOG = logging.getLogger(__name__)


class Recorder:
    """Decides what is recorded on one device, and keeps the memory that recorded work shares."""

    def __init__(self, device: torch.device, *, records: bool) -> None:
        """`records`: whether the work is of a kind that can be; only on a GPU."""
        self.records = records and device.type == "cuda"
        self.device = device
        self._pool = torch.cuda.graph_pool_handle() if self.records else None

    def recorded(self, work: Callable[[], torch.Tensor]) -> "tuple[torch.cuda.CUDAGraph, torch.Tensor] | None":
        """Record what `work` asks of the device, without its being done. None where it cannot be, and nothing is from
        then on: the reason is in the log."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Copies of KV cache go on meanwhile, in threads of their own.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                result = work()
        except RuntimeError as error:
            self.records = False
            _LOG.warning("steps are not recorded as CUDA graphs on %s: %s", self.device, str(error).partition("\n")[0])
            return None
        return graph, result


class Replay:
    """Work that always reads the same tensors, and does the same to them: what they hold is others' to change.

    Done for the second time, it is recorded, and replayed from then on: the first made what it needs (kernels are
    compiled, libraries take their memory), and work of a kind that never comes again is not worth it. Where nothing is
    recorded, it is done each time."""

    def __init__(self, recorder: Recorder, work: Callable[[], torch.Tensor]) -> None:
        self._recorder = recorder
        self._work = work
        self._was_done = False
        self._recorded: tuple[torch.cuda.CUDAGraph, torch.Tensor] | None = None

    def __call__(self) -> torch.Tensor:
        """Return the result, which the next call may overwrite."""
        if self._recorded is None and self._was_done and self._recorder.records:
            self._recorded = self._recorder.recorded(self._work)
        self._was_done = True
        if self._recorded is None:
            return self._work()
        graph, result = self._recorded
        graph.replay()
        return result
