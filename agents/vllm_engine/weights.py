"""The folder of safetensors that vLLM loads, whatever form the checkpoint has."""

from hashlib import sha256
from pathlib import Path

import torch

from agents.weights.safetensors_checkpoint import SafetensorsCheckpoint
from agents.weights.safetensors_folder import write_safetensors_folder
from agents.weights.source import open_checkpoint


def safetensors_folder(path: Path, dtype: str, converted: Path) -> Path:
    """`path` itself, once every tensor is what was recorded; for a GGUF file its conversion, made once.

    vLLM reads the files by itself, so what is recorded of them is checked here. Raises WeightsError.
    """
    checkpoint = open_checkpoint(path)
    if not isinstance(checkpoint, SafetensorsCheckpoint):
        stat = checkpoint.path.stat()
        identity = f"{checkpoint.path.resolve()} {stat.st_size} {stat.st_mtime_ns}"
        folder = converted / f"{checkpoint.path.stem}-{dtype}-{sha256(identity.encode()).hexdigest()[:16]}"
        if not folder.exists():
            write_safetensors_folder(checkpoint, folder, getattr(torch, dtype))
        checkpoint = SafetensorsCheckpoint(folder)
    if checkpoint.has_checksums:
        for name in checkpoint.names:
            checkpoint.read(name)
    return checkpoint.path
