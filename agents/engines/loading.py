"""Loads a stage engine by name: each is imported only where it is asked for, since vLLM is in few environments."""

from typing import Literal

import torch

from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.weights.checkpoint import Checkpoint

EngineName = Literal["torch", "vllm"]
"""Cost models are keyed by it."""


def load_stage_engine(
    name: EngineName,
    checkpoint: Checkpoint,
    held: LayerRange,
    kv_blocks: int,
    dtype: torch.dtype,
    device: torch.device,
    memory_bytes: int | None = None,
) -> StageEngine:
    """`held` of the model with a KV cache of `kv_blocks` blocks; `memory_bytes`: what both may take of the device.

    Raises EngineError, WeightsError, or ValueError: for a model or device that the engine does not run, and where its
    packages are not installed."""
    if name == "torch":
        from agents.engines.torch_engine.engine import load_torch_engine

        return load_torch_engine(checkpoint, held, kv_blocks, dtype, device, memory_bytes=memory_bytes)
    from agents.engines.vllm_stage.environment import prepare_vllm

    prepare_vllm()
    try:
        from agents.engines.vllm_stage.engine import load_vllm_stage
    except ModuleNotFoundError as error:
        raise ValueError(f"vLLM is not installed in this environment ({error}): make vllm-env") from error
    return load_vllm_stage(checkpoint, held, kv_blocks, dtype, device, memory_bytes)
