"""`python -m agents.vllm_engine`: a whole model on this node, served by vLLM; prints its address and key as a JSON
line, and ends when the engine does. To be run with the Python of the environment that vLLM is installed in."""

import argparse
import asyncio
import errno
import json
import logging
import multiprocessing
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.engines.loading import check_engine
from agents.engines.vllm_stage.environment import prepare_vllm
from agents.scheduler.instance_file import BadInstanceFileError, InstanceFile, read_instance_file
from agents.scheduler.settings import SchedulerSettings
from agents.tracing.json_lines import log_json_lines
from agents.vllm_engine import built_kernels
from agents.vllm_engine.engine_thread import Engine
from agents.vllm_engine.exchange import Split
from agents.vllm_engine.legs import Carrier
from agents.vllm_engine.scheduler import VllmScheduler
from agents.weights.source import open_checkpoint
from templates_lib.models.hub_weights import fetch_layers, is_on_hub

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the one whose logits processors we implement
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # this process has threads, which a fork would not
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else each worker on a CPU wants a NUMA node of its own
}


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.vllm_engine", description=__doc__)
    parser.add_argument("--instance", type=Path, required=True, help="as of agents.scheduler: one stage of one node")
    parser.add_argument("--key", type=Path, required=True, help="file of its key pair")
    parser.add_argument("--checkpoint", required=True, help="folder of safetensors, GGUF, or hf:ORG/NAME to fetch")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], required=True)
    parser.add_argument("--threads", type=int, default=1, help="of the engine, on a CPU")
    parser.add_argument("--memory-mib", type=int, help="what weights and KV cache may take; default: all there is")
    parser.add_argument("--pace", type=float, default=1.0, help="share of the time that it may compute, above 0")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="devices that each part is cut over")
    parser.add_argument("--parts", type=int, default=1, help="parts, on devices of their own")
    parser.add_argument("--whole-experts", action="store_true", help="each device holds some experts whole")
    cache = Path.home() / ".cache" / "medley" / "weights"
    parser.add_argument("--converted", type=Path, default=cache, help="folder for what GGUF files are converted to")
    return parser


def _load(arguments: argparse.Namespace, instance: InstanceFile) -> Engine:
    """Raises whatever keeps the model from being loaded."""
    place = arguments.checkpoint
    path = fetch_layers(place) if is_on_hub(place) else Path(place)
    prepare_vllm()  # from here on nothing is fetched
    from agents.vllm_engine.weights import check_memory, safetensors_folder

    checkpoint = open_checkpoint(path)
    check_engine("vllm", checkpoint, place)
    check_memory(path, instance.layout, arguments.dtype, arguments.memory_mib)
    folder = safetensors_folder(path, arguments.dtype, arguments.converted)
    from agents.vllm_engine.engine import VllmEngine
    from agents.vllm_engine.held_weights import log_weights

    split = Split(arguments.tensor_parallel, arguments.parts, arguments.whole_experts)
    engine = VllmEngine(folder, instance.layout, arguments.dtype, split, instance.prefix_cache)
    log_weights(engine.held_bytes, checkpoint.config, arguments.dtype, split)
    return engine


def _carrier(*about: Any) -> Carrier:
    """Make what carries KV caches, which takes torch: the engine has brought it by then."""
    from agents.vllm_engine.kv_worker import KvWorker

    return KvWorker(*about)


async def _serve(instance: InstanceFile, keys: KeyPair, arguments: argparse.Namespace) -> VllmScheduler:
    """Serve; return the scheduler once it has failed, or was told to stop."""
    scheduler = VllmScheduler(
        instance.bind,
        keys,
        instance.gateways,
        instance.layout,
        partial(_load, arguments, instance),
        SchedulerSettings(network=instance.network),
        pace=arguments.pace,
        interface=instance.interface,
        make_carrier=_carrier,
    )
    where = {"endpoint": scheduler.endpoint, "stages": scheduler.endpoint, "public_key": keys.public}
    print(json.dumps(where), flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody may read on, and libraries print
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, scheduler.over.set)
    await scheduler.over.wait()
    await scheduler.stop()
    return scheduler


def _main() -> int:
    arguments = parser().parse_args()
    os.environ.update(_ENVIRONMENT | built_kernels.environment(), OMP_NUM_THREADS=str(arguments.threads))
    try:
        instance, keys = read_instance_file(arguments.instance), KeyPair.load(arguments.key)
        scheduler = uvloop.run(_serve(instance, keys, arguments))
    except (BadKeyError, BadInstanceFileError, OSError, ValueError) as error:
        print(f"vllm: {error}", file=sys.stderr)
        return 1
    if scheduler.failure:
        print(f"vllm: {scheduler.failure}", file=sys.stderr)
        return errno.ENOMEM if scheduler.is_out_of_memory else 1
    return 0


if __name__ == "__main__":
    log_json_lines()
    status = _main()
    logging.shutdown()
    for worker in multiprocessing.active_children():
        worker.kill()  # one that waits for a lost rank ends no sooner
    os._exit(status)  # the engine's thread may be in a step, and nothing ends that sooner
