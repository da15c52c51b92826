"""An executor of a decoder of a model's graph: how it is cut and how much it has room for, before it becomes the
scheduler of one stage that has all layers (`agents.executor.decoder_scheduler`)."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch

from agents.engines.errors import OutOfMemoryError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_components.engine import ENCODERS
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_config import DecoderConfig, decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.memory_need import memory_need
from agents.executor.decoder_scheduler import command_of
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.weights.checkpoint import Checkpoint
from templates_lib.graphs.component import ComponentKind, Modality
from templates_lib.graphs.read import READERS, graph_from_config
from templates_lib.models.config_fields import UnsupportedModelError

_WORKER = "decoder"
_REQUESTS = 16
"""At once, where the plan does not say."""
_CHUNK_TOKENS = 512
_LEAST_TOKENS = 256
"""Of a context, where the model's own is no shorter: one that no question and answer fit in serves nobody."""


def is_decoder(config: dict[str, Any], components: Sequence[str]) -> bool:
    """Tell whether these are the decoder of a graph that answers with text. Raises UnsupportedModelError where they are
    one with encoders."""
    family = config.get("model_type")
    encoders = [name for name in components if (family, name) in ENCODERS]
    if encoders or family not in READERS:
        if 0 < len(encoders) < len(components):
            what = f"{', '.join(encoders)} run in an executor of their own, apart from the others of {components}"
            raise UnsupportedModelError("components", what)
        return False
    graph = graph_from_config(config, "model", "checkpoint")
    own = [each for each in graph.components if each.name in components]
    return [(each.kind, each.answers) for each in own] == [(ComponentKind.DECODER, Modality.TEXT)]


def layout_of(
    model: str, decoder: Checkpoint, context_tokens: int, requests: int, dtype: torch.dtype, memory_bytes: int | None
) -> PipelineLayout:
    """One stage with all layers, and KV blocks for `requests` of the longest context, or as many as the memory has room
    for beside the weights: where that is not even one such request, contexts are as long as there is room for. Raises
    OutOfMemoryError where that is shorter than _LEAST_TOKENS."""
    config = decoder_config(decoder.config)
    context = min(context_tokens, config.max_context_tokens)
    encoded = _blocks(config.encoded_tokens)
    blocks = requests * (_blocks(context) + encoded)
    if memory_bytes is not None:
        need = memory_need(decoder, config, _whole(config), dtype)
        blocks = min(blocks, need.kv_blocks_within(memory_bytes))
        least = min(context, _LEAST_TOKENS)
        if blocks < _blocks(least) + encoded:
            raise OutOfMemoryError(
                f"{need.weight_bytes / 2**20:.0f} MiB of weights leave no room for the KV cache of one request of "
                f"{least} tokens within {memory_bytes / 2**20:.0f} MiB: allow more memory"
            )
        context = min(context, (blocks - encoded) * BLOCK_TOKENS)
    limits = NodeLimits(_WORKER, 1.0, requests, _CHUNK_TOKENS, blocks)
    return PipelineLayout(model, ((limits,),), BLOCK_TOKENS, context, config.vocab_size)


def decoder_command(given: PipelineLayout, checkpoint: Checkpoint, arguments: Namespace) -> tuple[str, ...]:
    """Return the command that serves the decoder of a model. `given`: names the model and the longest context.
    `arguments`: of the executor. Raises OutOfMemoryError where `layout_of` does."""
    decoder, dtype = decoder_part(checkpoint), getattr(torch, arguments.dtype)
    memory = None if arguments.memory_mib is None else arguments.memory_mib << 20
    requests = sum(int(each.rpartition("=")[2]) for each in arguments.together) or _REQUESTS
    layout = layout_of(given.model, decoder, given.max_context_tokens, requests, dtype, memory)
    worker = _worker(arguments, decoder_config(decoder.config), layout.stages[0][0].kv_blocks)
    return command_of(arguments.instance, arguments.key, arguments.components, layout, worker)


def _worker(arguments: Namespace, config: DecoderConfig, kv_blocks: int) -> tuple[str, ...]:
    """Options of the stage's worker, but for those that say who its scheduler is."""
    options = ["--sidecar", arguments.sidecar, "--checkpoint", arguments.checkpoint, "--dtype", arguments.dtype]
    options += ["--first-layer", "0", "--layers", str(config.layers), "--kv-blocks", str(kv_blocks)]
    options += ["--device", str(arguments.device), "--threads", str(arguments.threads), "--pace", str(arguments.pace)]
    if arguments.memory_mib is not None:
        options += ["--memory-mib", str(arguments.memory_mib)]
    return tuple(options)


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


def _whole(config: DecoderConfig) -> LayerRange:
    return LayerRange(0, config.layers, first=True, last=True)
