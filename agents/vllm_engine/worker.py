"""The worker of vLLM where each has a process of its own: it says why it did not start, and ends with its parent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm.distributed import get_pp_group
from vllm.platforms import current_platform

from agents.end_with_parent import end_with_parent
from agents.vllm_engine.workers import FAULTS

if TYPE_CHECKING or not current_platform.is_cpu():
    from vllm.v1.worker.gpu_worker import Worker
else:
    from vllm.v1.worker.cpu_worker import CPUWorker as Worker


class ToldWorker(Worker):  # type: ignore[misc]  # vLLM is not where types are checked
    """To be named to vLLM as its worker. What goes wrong before it takes calls is written into `FAULTS`, as vLLM passes
    on no more than that something did."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        end_with_parent()  # one that was killed waits for no collective
        with self._told():
            super().__init__(*arguments, **more)

    def init_device(self) -> None:
        with self._told():
            super().init_device()

    def load_model(self, *arguments: Any, **more: Any) -> None:
        with self._told():
            super().load_model(*arguments, **more)
            if current_platform.is_cpu():
                self._make_buffers()

    def _make_buffers(self) -> None:
        """Make room for what the part before this one passes on: vLLM does so in a warm-up, which a CPU skips."""
        runner = self.model_runner
        if not get_pp_group().is_first_rank and runner.intermediate_tensors is None:
            sizes = {"batch_size": runner.max_num_tokens, "dtype": runner.model_config.dtype, "device": runner.device}
            runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(**sizes)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if folder := os.environ.get(FAULTS):
                (Path(folder) / f"{os.getpid()}").write_text(f"{type(error).__name__}: {error}")
            raise
