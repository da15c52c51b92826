"""The folder of safetensors that vLLM loads, whatever form the checkpoint has."""

from hashlib import sha256
from pathlib import Path

import torch

from agents.engines.errors import OutOfMemoryError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.shard import WHOLE
from agents.scheduler.layout import PipelineLayout
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


def check_memory(path: Path, layout: PipelineLayout, dtype: str, memory_mib: int | None) -> None:
    """Raises OutOfMemoryError where weights and KV cache of the whole model take more than `memory_mib`."""
    if memory_mib is None:
        return
    checkpoint = open_checkpoint(path)
    config = decoder_config(checkpoint.config)
    need = memory_need(checkpoint, config, LayerRange.whole(config.layers), getattr(torch, dtype), WHOLE)
    ((node,),) = layout.stages
    kv_blocks = node.kv_blocks * layout.block_tokens // BLOCK_TOKENS
    if need.total_bytes(kv_blocks) > memory_mib << 20:
        raise OutOfMemoryError(
            f"the model takes {need.weight_bytes >> 20} MiB of weights and {kv_blocks} KV blocks of "
            f"{need.kv_block_bytes / 2**20:.2f} MiB, of {memory_mib} MiB: load at most "
            f"{need.kv_blocks_within(memory_mib << 20)} blocks, or cut the model"
        )
