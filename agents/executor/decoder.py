"""An executor of a decoder of a model's graph: the scheduler of one stage that has all layers, with the stage's worker
beside it."""

import asyncio
import errno
import json
import os
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agents.channels.keys import KeyPair
from agents.engines.errors import OutOfMemoryError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_components.engine import ENCODERS
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_config import DecoderConfig, decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.memory_need import memory_need
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.server import InstanceScheduler
from agents.scheduler.settings import SchedulerSettings
from agents.weights.checkpoint import Checkpoint
from templates_lib.graphs.component import ComponentKind, Modality
from templates_lib.graphs.read import READERS, graph_from_config
from templates_lib.models.config_fields import UnsupportedModelError

_WORKER = "decoder"
_ANYWHERE = "tcp://127.0.0.1:0"
_REQUESTS = 16
"""At once, where the plan does not say."""
_CHUNK_TOKENS = 512
_LEAST_TOKENS = 256
"""Of a context, where the model's own is no shorter: one that no question and answer fit in serves nobody."""
_GRACE_S = 10.0


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


async def serve_decoder(instance: InstanceFile, keys: KeyPair, checkpoint: Checkpoint, arguments: Namespace) -> int:
    """Serve until it has failed, or is told to stop; return the exit status. Raises OSError, OutOfMemoryError."""
    decoder, dtype = decoder_part(checkpoint), getattr(torch, arguments.dtype)
    memory = None if arguments.memory_mib is None else arguments.memory_mib << 20
    requests = sum(int(each.rpartition("=")[2]) for each in arguments.together) or _REQUESTS
    given = instance.layout
    layout = layout_of(given.model, decoder, given.max_context_tokens, requests, dtype, memory)
    worker_keys = KeyPair.generate()
    settings = SchedulerSettings(network=instance.network, prefix_cache=instance.prefix_cache)
    scheduler = InstanceScheduler(
        instance.bind,
        _ANYWHERE,
        instance.interface,
        keys,
        instance.gateways,
        {worker_keys.public: _WORKER},
        layout,
        settings,
    )
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, scheduler.over.set)
    with tempfile.TemporaryDirectory(prefix="decoder-", dir=arguments.key.parent) as folder:
        key = Path(folder) / "worker.key"
        worker_keys.save(key)
        command = _command(arguments, scheduler.stages_endpoint, keys.public, key, decoder_config(decoder.config))
        command += ("--kv-blocks", str(layout.stages[0][0].kv_blocks))
        worker = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        where = {"endpoint": scheduler.endpoint, "stages": scheduler.endpoint, "public_key": keys.public}
        print(json.dumps(where), flush=True)
        waiting = [asyncio.ensure_future(each) for each in (scheduler.over.wait(), worker.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        failure = scheduler.failure or ("" if worker.returncode is None else "its worker has ended")
        await scheduler.stop()
        await _end(worker)
        for each in waiting:
            each.cancel()
    if failure:
        print(f"components: {failure}", file=sys.stderr)
    return errno.ENOMEM if worker.returncode == errno.ENOMEM else int(bool(failure))


def _command(arguments: Namespace, scheduler: str, public: str, key: Path, config: DecoderConfig) -> tuple[str, ...]:
    """Of the worker, without its KV blocks."""
    command = [sys.executable, "-m", "agents.stage", "--scheduler", scheduler, f"--scheduler-key={public}"]
    command += ["--owner", str(os.getpid()), "--key", str(key), "--sidecar", arguments.sidecar]
    command += ["--checkpoint", arguments.checkpoint, "--dtype", arguments.dtype]
    command += ["--first-layer", "0", "--layers", str(config.layers)]
    command += ["--device", str(arguments.device), "--threads", str(arguments.threads), "--pace", str(arguments.pace)]
    if arguments.memory_mib is not None:
        command += ["--memory-mib", str(arguments.memory_mib)]
    return tuple(command)


async def _end(worker: asyncio.subprocess.Process) -> None:
    """It leaves with its scheduler; who does not is ended."""
    if worker.returncode is None:
        try:
            await asyncio.wait_for(worker.wait(), _GRACE_S)
        except TimeoutError:
            worker.kill()
            await worker.wait()


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


def _whole(config: DecoderConfig) -> LayerRange:
    return LayerRange(0, config.layers, first=True, last=True)
