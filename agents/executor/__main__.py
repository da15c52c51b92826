"""`python -m agents.executor`: encoders, the decoder or a generator of a model's graph on this node; prints its address
and key as a JSON line, and ends when an engine does."""

import argparse
import asyncio
import errno
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import uvloop

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.engines.components.stepped import SteppedEngine
from agents.engines.errors import EngineError, OutOfMemoryError
from agents.engines.torch_components.engine import load_torch_encoder
from agents.engines.torch_components.loading import Limits
from agents.executor.decoder import decoder_command, is_decoder
from agents.executor.encoders import Encoders
from agents.executor.generators import Place, loader_of
from agents.executor.maker_server import MakerServer
from agents.executor.server import ExecutorServer
from agents.scheduler.instance_file import BadInstanceFileError, InstanceFile, read_instance_file
from agents.tracing.json_lines import log_json_lines
from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import WeightsError
from agents.weights.source import open_checkpoint
from templates_lib.models.hub_weights import fetch_layers, find_checkpoint, is_on_hub
from templates_lib.models.weights_place import NoWeightsError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.executor", description=__doc__)
    parser.add_argument("--instance", type=Path, required=True, help="who may speak to it, and where it listens")
    parser.add_argument("--key", type=Path, required=True, help="file of its key pair")
    parser.add_argument("--checkpoint", required=True, help="of the whole model: folder, or hf:ORG/NAME to fetch")
    parser.add_argument("--components", required=True, help="names in the model's graph, with commas between them")
    parser.add_argument("--together", action="append", default=[], help="COMPONENT/TYPE=REQUESTS at once, as planned")
    parser.add_argument("--dtype", choices=sorted(_DTYPES), required=True)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--threads", type=int, default=1, help="of the engines, on a CPU")
    parser.add_argument("--memory-mib", type=int, help="what weights and batches may take; default: all there is")
    parser.add_argument("--pace", type=float, default=1.0, help="share of the time that it may compute, above 0")
    parser.add_argument("--tensor-parallel", type=int, choices=[1], default=1, help="devices of each component")
    parser.add_argument("--parts", type=int, choices=[1], default=1, help="of each component")
    parser.add_argument("--sidecar", required=True, help="name of the tensor sidecar of this node")
    return parser


def _opened(place: str) -> Checkpoint:
    return open_checkpoint(fetch_layers(place) if is_on_hub(place) else Path(place))


def _config(place: str) -> dict[str, Any]:
    """The model's config, of the hub without its weights."""
    if is_on_hub(place):
        found: dict[str, Any] = json.loads(find_checkpoint(place).config.read_bytes())
        return found
    return _opened(place).config


def _load(arguments: argparse.Namespace, components: tuple[str, ...]) -> Encoders:
    """Raises whatever keeps them from being loaded."""
    checkpoint = _opened(arguments.checkpoint)
    dtype, device = _DTYPES[arguments.dtype], arguments.device
    left = None if arguments.memory_mib is None else arguments.memory_mib << 20
    engines = {}
    for number, name in enumerate(components):
        own = None if left is None else left // (len(components) - number)
        limits = replace(Limits(), memory_bytes=own, takes_fewer=True, **_most_units(name, arguments.together))
        engines[name] = load_torch_encoder(checkpoint, name, dtype, device, limits)
        left = None if left is None else left - engines[name].facts.most_memory_bytes
    return Encoders(engines, arguments.sidecar, f"{arguments.instance.stem}-{os.getpid()}")


def _most_units(component: str, together: Sequence[str]) -> dict[str, int]:
    """The most that the plan has it compute at once, of any request type; nothing where it does not say. Raises
    ValueError."""
    own = [each.rpartition("=")[2] for each in together if each.startswith(f"{component}/")]
    return {"most_units": max(map(int, own))} if own else {}


def _generator(arguments: argparse.Namespace, components: tuple[str, ...]) -> Callable[[], SteppedEngine] | None:
    """What loads the generator that they are; None: they are something else."""
    place = arguments.checkpoint
    load = None if is_on_hub(place) or len(components) != 1 else loader_of(Path(place), components[0])
    if load is None:
        return None
    memory = None if arguments.memory_mib is None else arguments.memory_mib << 20
    limits = replace(Limits(), memory_bytes=memory, takes_fewer=True, **_most_units(components[0], arguments.together))
    return partial(load, Path(place), components[0], Place(arguments.device, _DTYPES[arguments.dtype]), limits)


async def _serve(
    instance: InstanceFile,
    keys: KeyPair,
    components: tuple[str, ...],
    arguments: argparse.Namespace,
    generator: Callable[[], SteppedEngine] | None,
) -> ExecutorServer | MakerServer:
    """Serve a generator, or encoders; return the executor once it has failed, or was told to stop."""
    about = instance.bind, keys, instance.gateways, instance.layout.model
    server: ExecutorServer | MakerServer
    if generator is not None:
        server = MakerServer(*about, components[0], generator, arguments.pace)
    else:
        server = ExecutorServer(*about, components, partial(_load, arguments, components), arguments.pace)
    where = {"endpoint": server.endpoint, "stages": server.endpoint, "public_key": keys.public}
    print(json.dumps(where), flush=True)
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, server.over.set)
    await server.over.wait()
    server.close()
    return server


def _main() -> int:
    arguments = parser().parse_args()
    torch.set_num_threads(arguments.threads)
    try:
        instance, keys = read_instance_file(arguments.instance), KeyPair.load(arguments.key)
        components = tuple(arguments.components.split(","))
        generator = _generator(arguments, components)
        if generator is None and is_decoder(_config(arguments.checkpoint), components):
            # It goes on as another program, without torch: its worker has the only copy.
            command = decoder_command(instance.layout, _opened(arguments.checkpoint), arguments)
            os.execv(command[0], command)  # noqa: S606 - of our own words
        server = uvloop.run(_serve(instance, keys, components, arguments, generator))
    except (BadKeyError, BadInstanceFileError, EngineError, NoWeightsError, WeightsError, OSError, ValueError) as error:
        print(f"components: {error}", file=sys.stderr)
        return errno.ENOMEM if isinstance(error, OutOfMemoryError) else 1
    if server.failure:
        print(f"components: {server.failure}", file=sys.stderr)
        return errno.ENOMEM if server.is_out_of_memory else 1
    return 0


if __name__ == "__main__":
    log_json_lines()
    status = _main()
    logging.shutdown()
    os._exit(status)  # an engine's thread may be in a batch, and nothing ends that sooner
