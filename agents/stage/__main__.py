"""`python -m agents.stage`: one stage worker as a process of its own; ends with its instance."""

import argparse
import asyncio
import errno
import logging
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import torch
import zmq

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.errors import BadKeyError, ChannelError
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.end_with_parent import end_with_parent
from agents.engines.errors import EngineError, OutOfMemoryError
from agents.engines.layer_range import LayerRange
from agents.engines.loading import check_engine, load_stage_engine
from agents.engines.protocol import StageEngine
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.kv_pool.client import lent_pool
from agents.kv_pool.lent_pool import LentPool
from agents.kv_pool.turns import turns_of
from agents.messages.to_hub import OUT_OF_MEMORY
from agents.messages.to_stage import ToStage
from agents.messages.to_stage_scheduler import StageFailed
from agents.stage.worker import InstanceLostError, StageWorker, WorkerSettings
from agents.tracing.json_lines import log_json_lines
from agents.weights.errors import WeightsError
from agents.weights.source import open_checkpoint
from templates_lib.models.hub_weights import fetch_layers, is_on_hub
from templates_lib.models.weights_place import NoWeightsError
from templates_lib.values.engines import ACTIVATIONS, DEFAULT_ENGINE, stage_engines

_log = logging.getLogger(__name__)

_OUT_OF_MEMORY = (OutOfMemoryError, MemoryError)
_NOT_LOADED = (EngineError, NoWeightsError, WeightsError, MemoryError, OSError, ValueError)
_EXPECTED = (BadKeyError, ChannelError, InstanceLostError, *_NOT_LOADED)

_NAMES = ("float32", "bfloat16")
_DTYPES = {name: getattr(torch, name) for name in _NAMES} | {
    name: getattr(torch, activations) for name, activations in ACTIVATIONS.items() if activations in _NAMES
}
"""By torch's names, and by those of catalogues: weights that are quantised say themselves how."""


class _Gone:
    """Ignores what it hears: the worker is on its way out."""

    def up(self) -> None: ...

    def received(self, message: ToStage) -> None: ...

    def down(self, reason: str) -> None: ...


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.stage", description=__doc__)
    parser.add_argument("--scheduler", required=True, metavar="tcp://HOST:PORT")
    parser.add_argument("--scheduler-key", required=True, help="its public key, behind a =: it may begin with a dash")
    parser.add_argument("--key", type=Path, required=True, help="file of this worker's own key pair")
    parser.add_argument("--engine", choices=stage_engines(), default=DEFAULT_ENGINE, help="in its environment")
    parser.add_argument("--checkpoint", required=True, help="a path, or hf:ORG/NAME, of which its layers are fetched")
    parser.add_argument("--first-layer", type=int, required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--kv-blocks", type=int, required=True)
    parser.add_argument(
        "--dtype", choices=sorted(_DTYPES), required=True, help="of weights; quantised ones compute in bfloat16"
    )
    parser.add_argument(
        "--device",
        type=torch.device,
        action="append",
        help="of the engine; several: the stage is cut over them, by heads and feed-forward width. Default: the CPU",
    )
    parser.add_argument("--whole-experts", action="store_true", help="several devices hold experts whole, not cut")
    parser.add_argument(
        "--experts-store",
        type=Path,
        help="new file in which replicas of this node meet that hold experts of each other; with these two",
    )
    parser.add_argument("--replica", type=int, default=0, help="which of them this is")
    parser.add_argument("--replicas", type=int, default=1, help="how many there are")
    parser.add_argument("--memory-mib", type=int, help="what weights and KV cache may take; default: all there is")
    parser.add_argument("--threads", type=int, default=1, help="of the engine, on a CPU")
    parser.add_argument(
        "--pace", type=float, default=1.0, help="share of the time that the engine may compute, above 0"
    )
    parser.add_argument("--worker", type=int, default=0, help="which of its node's workers this is")
    parser.add_argument(
        "--sidecar", default="", help="name of this node's tensor sidecar, for rows of other components"
    )
    parser.add_argument("--pool", type=Path, help="socket of the KV cache that this node's models share; with --member")
    parser.add_argument("--member", type=int, default=0, help="which of these models this is, from 0")
    parser.add_argument("--interface", default="127.0.0.1", help="address of this node on the private network")
    parser.add_argument("--owner", type=int, help="process that started it, with which it ends at once")
    parser.add_argument("--peer-timeout-s", type=float, default=60.0, help="longer than the longest step")
    return parser.parse_args()


def _load(arguments: argparse.Namespace, pool: LentPool | None) -> StageEngine:
    first, layers = arguments.first_layer, arguments.layers
    place = arguments.checkpoint
    path = fetch_layers(place, first, layers) if is_on_hub(place) else Path(place)
    checkpoint = open_checkpoint(path)
    decoder = decoder_part(checkpoint)
    if decoder is checkpoint or arguments.engine != "torch":  # else it says itself which decoders of graphs it runs
        check_engine(arguments.engine, checkpoint, place)
    is_last = first + layers == decoder_config(decoder.config).layers
    memory_bytes = None if arguments.memory_mib is None else arguments.memory_mib << 20
    held, dtype = LayerRange(first, layers, first=first == 0, last=is_last), _DTYPES[arguments.dtype]
    devices, blocks = tuple(arguments.device or [torch.device("cpu")]), arguments.kv_blocks
    if len(devices) == 1 and arguments.experts_store is None:
        engine = load_stage_engine(arguments.engine, checkpoint, held, blocks, dtype, devices[0], memory_bytes, pool)
    else:
        engine = _sharded(arguments, path, held, devices, memory_bytes)
    mib, seconds = engine.facts.loaded_bytes / 2**20, engine.facts.load_s
    _log.info("loaded %.0f MiB of %s in %.1f s: %.0f MiB/s", mib, place, seconds, mib / seconds)
    return engine


def _reason(error: Exception) -> str:
    return f"{OUT_OF_MEMORY}: {error}" if isinstance(error, _OUT_OF_MEMORY) else str(error)


def _sharded(
    arguments: argparse.Namespace,
    path: Path,
    held: LayerRange,
    devices: tuple[torch.device, ...],
    memory_bytes: int | None,
) -> StageEngine:
    if arguments.engine != "torch":
        raise ValueError("only the torch engine cuts a stage over several devices")
    from agents.engines.torch_engine.shard_worker import ReplicaPlan
    from agents.engines.torch_engine.sharded_engine import load_sharded_engine

    store = arguments.experts_store
    replicas = None if store is None else ReplicaPlan(arguments.replica, arguments.replicas, store)
    return load_sharded_engine(
        path,
        held,
        arguments.kv_blocks,
        _DTYPES[arguments.dtype],
        devices,
        arguments.whole_experts,
        arguments.peer_timeout_s,
        memory_bytes,
        replicas,
    )


async def _serve(arguments: argparse.Namespace) -> None:
    address, keys = Address(arguments.scheduler, arguments.scheduler_key), KeyPair.load(arguments.key)
    settings = WorkerSettings(
        arguments.interface, arguments.peer_timeout_s, arguments.worker, arguments.pace, arguments.sidecar
    )
    with ExitStack() as shared:
        pool, turns = None, None
        try:
            if arguments.pool is not None:
                pool = shared.enter_context(lent_pool(arguments.pool, arguments.member))
                turns = shared.enter_context(turns_of(arguments.pool, arguments.member))
            engine = _load(arguments, pool)
        except _NOT_LOADED as error:
            await give_notice(address, keys, _reason(error), settings.channel)
            raise
        worker = StageWorker(engine, address, keys, settings, turns)
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, worker.stop)
        if farewell := await worker.run():
            print(f"stage: told to leave: {farewell}", file=sys.stderr)


def _main() -> int:
    arguments = _arguments()
    if arguments.owner is not None:
        end_with_parent()
        if os.getppid() != arguments.owner:  # it was gone before
            return 1
    torch.set_num_threads(arguments.threads)
    try:
        asyncio.run(_serve(arguments))
    except _EXPECTED as error:
        print(f"stage: {_reason(error)}", file=sys.stderr)
        return errno.ENOMEM if isinstance(error, _OUT_OF_MEMORY) else 1
    finally:
        zmq.Context.instance().destroy(linger=200)  # ms: the reason is to reach the scheduler
    return 0


async def give_notice(scheduler: Address, keys: KeyPair, reason: str, settings: ChannelSettings) -> None:
    """Tell the scheduler why the worker could not load, as far as it can be reached within `lost_after_s`: it need not
    wait then."""
    dialer: Dialer[ToStage] = Dialer(scheduler, keys, "stage", ToStage, _Gone(), settings)
    try:
        await dialer.wait_up(settings.lost_after_s)
        dialer.send(StageFailed(reason[:1000]))
        await asyncio.sleep(settings.linger_s)
    except ChannelError as error:
        _log.warning("the scheduler cannot be told: %s", error)
    finally:
        dialer.close()


if __name__ == "__main__":
    log_json_lines()
    status = _main()
    logging.shutdown()
    os._exit(status)  # the engine's thread may wait for a neighbour, and nothing ends that wait sooner
