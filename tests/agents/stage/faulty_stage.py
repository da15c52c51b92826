"""`python -m tests.agents.stage.faulty_stage FAULT FILE ...`: a stage worker whose engine has a fault in its next step
once the file is there. All else is that of `python -m agents.stage`."""

import runpy
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from agents.messages.to_stage import StageStep
from agents.messages.to_stage_scheduler import StageSampled
from agents.stage.runner import StageRunner

FAULTS: Mapping[str, Callable[[], object]] = {
    "hang": threading.Event().wait,
    "allocation": lambda: torch.empty(1 << 50, dtype=torch.uint8),
}


def _main() -> None:
    fault, file = FAULTS[sys.argv[1]], Path(sys.argv[2])
    del sys.argv[1:3]
    step = StageRunner.step

    def faulty(runner: StageRunner, order: StageStep) -> StageSampled | None:
        if file.exists():
            fault()
        return step(runner, order)

    StageRunner.step = faulty  # type: ignore[method-assign]
    runpy.run_module("agents.stage", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
