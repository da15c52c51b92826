"""The scheduler of an executor as a program: alone, or with the engine that it is."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec.structs import astuple

from agents.messages.to_node import Run, RunScheduler, RunWhole
from agents.node.settings import NodeSettings
from agents.node.worker_commands import VISIBLE, WorkerCommand, checkpoint, cpu_share, python_of, visible
from agents.scheduler.instance_file import InstanceFile, allow_gateways, write_instance_file
from agents.scheduler.layout import NodeLimits, PipelineLayout
from templates_lib.values.engines import engine_kind

AGENT = "agent"
"""What the agent is called at its own scheduler, which it asks for its status like a gateway."""


def scheduler_command(
    run: Run,
    scheduler: RunScheduler,
    own_key: str,
    key: Path,
    settings: NodeSettings,
    port: int = 0,
    sidecar: str = "",
    pool: Path | None = None,
) -> WorkerCommand:
    """Write the scheduler's instance file and return its command. `own_key`: the public key of the agent itself;
    `port`: of this node, that its cloud publishes for gateways; 0: any, on its private network. `sidecar`: name of the
    node's, for components of a graph. `pool`: socket of the KV cache that the node's models share.

    Raises NoWeightsError, and ValueError for unknown stages, for an engine that this node does not have, and for more
    devices than it has."""
    path = _path(run, settings)
    instance = _instance_file(run, scheduler, own_key, settings, port)
    if pool is not None and run.member is not None:
        instance = replace(instance, pool=str(pool), member=run.member)
    write_instance_file(path, instance)
    kind = engine_kind(run.engine)
    common = ("-m", kind.scheduler, "--instance", str(path), "--key", str(key))
    if not kind.is_whole:
        return WorkerCommand((sys.executable, *common))
    if run.whole is None:
        raise ValueError(f"engine {run.engine} serves a whole model by itself, and the hub did not say which weights")
    arguments = (str(python_of(run.engine, settings)), *common, *_of_engine(run, run.whole, settings, sidecar))
    if settings.device != "cuda":
        return WorkerCommand(arguments)
    devices = visible(0, run.whole.shards * run.whole.parts, run.devices, os.environ.get(VISIBLE))
    return WorkerCommand(arguments, {VISIBLE: devices})


def let_in(run: Run, scheduler: RunScheduler, own_key: str, settings: NodeSettings) -> None:
    """Have the executor's scheduler, which runs, let in the gateways that the control plane names now. Raises
    BadInstanceFileError."""
    allow_gateways(_path(run, settings), _gateways(scheduler, own_key))


def _path(run: Run, settings: NodeSettings) -> Path:
    return settings.home / f"{run.executor}.json"


def _gateways(scheduler: RunScheduler, own_key: str) -> dict[str, str]:
    return {**scheduler.gateways, own_key: AGENT}


def _instance_file(run: Run, scheduler: RunScheduler, own_key: str, settings: NodeSettings, port: int) -> InstanceFile:
    stages = tuple(tuple(NodeLimits(*astuple(share)) for share in peers) for peers in scheduler.stages)
    limits = scheduler.block_tokens, scheduler.max_context_tokens, scheduler.vocab_size
    layout = PipelineLayout(run.model, stages, *limits)
    anywhere = f"tcp://{settings.interface}:0"
    gateways = _gateways(scheduler, own_key)
    # What is published arrives at an address of the cloud's choice, whoever may speak is known by his key.
    for_gateways = (
        f"tcp://0.0.0.0:{port}" if port else f"tcp://[{settings.overlay}]:0" if settings.overlay else anywhere
    )
    reached = for_gateways, anywhere, settings.interface, settings.network
    return InstanceFile(layout, gateways, scheduler.workers, *reached, run.prefix_cache, speculation=run.speculation)


def _of_engine(run: Run, whole: RunWhole, settings: NodeSettings, sidecar: str) -> Iterator[str]:
    threads, pace = cpu_share(settings, 1, run.compute, run.processor_share)
    yield from ("--checkpoint", checkpoint(whole.weights), "--dtype", whole.dtype)
    yield from ("--threads", str(threads), "--pace", str(pace))
    yield from ("--tensor-parallel", str(whole.shards), "--parts", str(whole.parts))
    if whole.whole_experts:
        yield "--whole-experts"
    if whole.memory_mib:
        yield from ("--memory-mib", str(whole.memory_mib))
    if whole.components:
        yield from ("--components", ",".join(whole.components), "--device", settings.device, "--sidecar", sidecar)
    for name, most in sorted(whole.together.items()):
        yield from ("--together", f"{name}={most}")
