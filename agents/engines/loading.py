"""Loads a stage engine by name, which imports it: its libraries are in few environments."""

from collections.abc import Callable
from pkgutil import resolve_name

import torch

from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.kv_pool.lent_pool import LentPool
from agents.weights.checkpoint import Checkpoint
from templates_lib.models.held_model import refusal_of_node
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.values.engines import DEFAULT_ENGINE, ENGINES


def check_engine(name: str, checkpoint: Checkpoint, model: str) -> None:
    """Raises ValueError where the engine does not run the checkpoint, in the words in which plans are refused. `model`:
    what people know it by."""
    stored = model_from_hf_config(checkpoint.config, model, "").stored
    why = None if stored is None else refusal_of_node(name, model, stored)
    if why is not None:
        raise ValueError(why)


def load_stage_engine(
    name: str,
    checkpoint: Checkpoint,
    held: LayerRange,
    kv_blocks: int,
    dtype: torch.dtype,
    device: torch.device,
    memory_bytes: int | None = None,
    pool: LentPool | None = None,
) -> StageEngine:
    """`held` of the model with a KV cache of `kv_blocks` blocks; `memory_bytes`: what both may take of the device.
    `pool`: where its KV cache lies, shared with other models; None: it has its own.

    Raises EngineError, WeightsError, or ValueError: for a model or device that the engine does not run, and where its
    packages are not installed."""
    kind = ENGINES[name]
    if pool is not None and name != DEFAULT_ENGINE:
        raise ValueError(f"engine {name} has a KV cache of its own: models that share one run on {DEFAULT_ENGINE}")
    shared = {} if pool is None else {"pool": pool}
    try:
        load: Callable[..., StageEngine] = resolve_name(kind.loader)
        return load(checkpoint, held, kv_blocks, dtype, device, memory_bytes=memory_bytes, **shared)
    except ModuleNotFoundError as error:
        how = f": {kind.installed_by}" if kind.installed_by else ""
        raise ValueError(f"engine {name} is not installed in this environment ({error}){how}") from error
