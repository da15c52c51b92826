"""A program for the environment that has Triton: engines whose kernels Triton's interpreter runs, on a CPU.

    TRITON_INTERPRET=1 python -m tests.agents.engines.kernels_by_interpreter TOKENS PROMPTS CHECKPOINT ...

PROMPTS is a list in JSON. Prints a line for each checkpoint: greedy tokens of the requests in one batch, whether its
products are packed, and operations of a layer at a step of sixteen requests: torch's, views counted, and launches of
kernels.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine import engine as engine_module
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import TorchEngine
from agents.engines.torch_engine.experts import Experts
from agents.engines.torch_engine.kernels import packed_product, paged_attention, row_operations
from agents.engines.torch_engine.packed_operand import PackedExperts, PackedLinear
from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running


def is_packed(engine: TorchEngine) -> bool:
    """Tell whether what is quantised of a layer is multiplied by the kernel."""
    assert engine._stage is not None
    layer = engine._stage.layers[0]
    if isinstance(layer.feed_forward, Experts):
        return isinstance(layer.feed_forward.gate_up, PackedExperts) and isinstance(
            layer.feed_forward.down, PackedExperts
        )
    return isinstance(layer.attention.query_key_value, PackedLinear)


class Operations(TorchDispatchMode):
    """Counts them. What the interpreter asks of torch to run a kernel is not counted: it is one."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))

    def one(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        def launched(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            with _disable_current_modes():
                return launch(*args, **kwargs)

        return launched


KERNELS = ((paged_attention, "attend"), (packed_product, "multiply"))
KERNELS += ((row_operations, "normalise"), (row_operations, "rotate_and_keep"), (row_operations, "gated"))


def operations_of(checkpoint: Checkpoint, layers: int) -> int:
    held = LayerRange(0, layers, first=True, last=False)
    engine = engine_module.load_torch_engine(checkpoint, held, 32, torch.float32, DEVICE)
    requests = [StepRequest(str(number), number, 1) for number in range(16)]
    for each in requests[1:]:
        engine.reserve(each.id, each.position)
    counted = Operations()
    kept = [(module, name, getattr(module, name)) for module, name in KERNELS]
    for module, name, launch in kept:
        setattr(module, name, counted.one(launch))
    with counted:
        engine.step(StepBatch(tuple(requests)), torch.arange(len(requests)))
    for module, name, launch in kept:
        setattr(module, name, launch)
    return counted.count


def main() -> None:
    torch.set_num_threads(1)
    engine_module.has_decode_steps = lambda _: True
    engine_module.warm_up = lambda _: None  # it takes the interpreter long
    tokens, prompts = int(sys.argv[1]), json.loads(sys.argv[2])
    for folder in sys.argv[3:]:
        checkpoint = open_checkpoint(Path(folder))
        held = LayerRange.whole(decoder_config(checkpoint.config).layers)
        engine = engine_module.load_torch_engine(checkpoint, held, 16, torch.float32, DEVICE)
        running = [Running(str(number), tuple(prompt)) for number, prompt in enumerate(prompts)]
        while len(running[0].tokens) < tokens:  # both have as many
            running = Pipeline([engine]).step(running, chunk=64)
        said: dict[str, Any] = {"tokens": [list(request.tokens) for request in running], "packed": is_packed(engine)}
        few = 2 if held.layers > 4 else 1  # both windows of gpt-oss are among the layers that are compared
        said["operations"] = (operations_of(checkpoint, 2 * few) - operations_of(checkpoint, few)) / few
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
