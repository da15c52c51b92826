"""Loads a stage engine by name, which imports it: its libraries are in few environments."""

from collections.abc import Callable
from pkgutil import resolve_name

import torch

from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.weights.checkpoint import Checkpoint
from templates_lib.values.engines import ENGINES


def load_stage_engine(
    name: str,
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
    kind = ENGINES[name]
    try:
        load: Callable[..., StageEngine] = resolve_name(kind.loader)
        return load(checkpoint, held, kv_blocks, dtype, device, memory_bytes=memory_bytes)
    except ModuleNotFoundError as error:
        how = f": {kind.installed_by}" if kind.installed_by else ""
        raise ValueError(f"engine {name} is not installed in this environment ({error}){how}") from error
