"""Writes a checkpoint as a folder of safetensors: the form that vLLM, like most programs, loads."""

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save_file

from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import WeightsError
from agents.weights.safetensors_checkpoint import CONFIG, INDEX
from agents.weights.source import record_checksums

SHARD_BYTES = 2 << 30
"""Most bytes in memory at once, but for a tensor that is larger."""


def write_safetensors_folder(checkpoint: Checkpoint, folder: Path, dtype: torch.dtype) -> None:
    """All tensors of `checkpoint` as `dtype`, its config and checksums; `folder` appears whole or not at all.

    Where several processes make the same folder, the first one's stays. Raises WeightsError.
    """
    if (checkpoint.config.get("rope_scaling") or {}).get("rope_type") == "frequency_factors":
        raise WeightsError("rope frequency factors of a GGUF file have no place in a config.json; use safetensors")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write(checkpoint, partial, dtype)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(checkpoint: Checkpoint, folder: Path, dtype: torch.dtype) -> None:
    file_of: dict[str, str] = {}
    for number, names in enumerate(_shards(checkpoint, dtype), 1):
        file = f"model-{number:05}.safetensors"
        tensors = {name: checkpoint.read(name).to(dtype).contiguous() for name in names}
        save_file(tensors, folder / file, metadata={"format": "pt"})
        file_of |= dict.fromkeys(names, file)
    (folder / INDEX).write_bytes(msgspec.json.encode({"metadata": {}, "weight_map": file_of}))
    config = checkpoint.config | {"dtype": str(dtype).removeprefix("torch.")}
    (folder / CONFIG).write_bytes(msgspec.json.encode(config))
    record_checksums(folder)


def _shards(checkpoint: Checkpoint, dtype: torch.dtype) -> Iterator[list[str]]:
    """Names of each file's tensors."""
    names: list[str] = []
    size = 0
    for name in sorted(checkpoint.names):
        more = dtype.itemsize * math.prod(checkpoint.shape(name))
        if names and size + more > SHARD_BYTES:
            yield names
            names, size = [], 0
        names.append(name)
        size += more
    yield names
