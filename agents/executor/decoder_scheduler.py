"""`python -m agents.executor.decoder_scheduler`: what the executor of a decoder becomes once it knows the memory of its
model, the scheduler of one stage, with the stage's worker beside it. It needs no torch: of an executor's memory, which
is counted for one engine, the worker's is the only copy."""

import argparse
import asyncio
import errno
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.scheduler.instance_file import BadInstanceFileError, InstanceFile, read_instance_file
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.server import InstanceScheduler
from agents.scheduler.settings import SchedulerSettings
from agents.tracing.json_lines import log_json_lines

_ANYWHERE = "tcp://127.0.0.1:0"
_GRACE_S = 10.0


def command_of(
    instance: Path, key: Path, components: str, layout: PipelineLayout, worker: Sequence[str]
) -> tuple[str, ...]:
    """Return the command that serves `layout`, of one stage with one node. `worker`: options of `agents.stage`, but for
    those that say who its scheduler is."""
    command = (sys.executable, "-m", "agents.executor.decoder_scheduler", "--components", components)
    files = ("--instance", str(instance), "--key", str(key))
    return (*command, *files, "--layout", msgspec.json.encode(layout).decode(), "--", *worker)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.executor.decoder_scheduler", description=__doc__)
    parser.add_argument("--components", required=True, help="the decoder's name in the model's graph, for who looks")
    parser.add_argument("--instance", type=Path, required=True, help="who may speak to it, and where it listens")
    parser.add_argument("--key", type=Path, required=True, help="file of its key pair")
    parser.add_argument("--layout", required=True, help="JSON: one stage that has all layers, of one node")
    parser.add_argument("worker", nargs="+", help="behind `--`: options of its worker (agents.stage)")
    return parser.parse_args()


async def _serve(instance: InstanceFile, keys: KeyPair, layout: PipelineLayout, arguments: argparse.Namespace) -> int:
    """Serve until it has failed, or is told to stop; return the exit status. Raises OSError."""
    ((node,),) = layout.stages
    worker_keys = KeyPair.generate()
    settings = SchedulerSettings(network=instance.network, prefix_cache=instance.prefix_cache)
    scheduler = InstanceScheduler(
        instance.bind,
        _ANYWHERE,
        instance.interface,
        keys,
        instance.gateways,
        {worker_keys.public: node.name},
        layout,
        settings,
    )
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, scheduler.over.set)
    with tempfile.TemporaryDirectory(prefix="decoder-", dir=arguments.key.parent) as folder:
        key = Path(folder) / "worker.key"
        worker_keys.save(key)
        command = [sys.executable, "-m", "agents.stage", *arguments.worker, "--key", str(key)]
        command += ["--scheduler", scheduler.stages_endpoint, f"--scheduler-key={keys.public}"]
        command += ["--owner", str(os.getpid())]
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


async def _end(worker: asyncio.subprocess.Process) -> None:
    """It leaves with its scheduler; who does not is ended."""
    if worker.returncode is None:
        try:
            await asyncio.wait_for(worker.wait(), _GRACE_S)
        except TimeoutError:
            worker.kill()
            await worker.wait()


def _main() -> int:
    arguments = _arguments()
    try:
        layout = msgspec.json.decode(arguments.layout, type=PipelineLayout)
        instance, keys = read_instance_file(arguments.instance), KeyPair.load(arguments.key)
        return uvloop.run(_serve(instance, keys, layout, arguments))
    except (BadKeyError, BadInstanceFileError, OSError, ValueError) as error:
        print(f"components: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    log_json_lines()
    sys.exit(_main())
