"""The stage workers of a node as programs: one for each part of each data-parallel replica inside it."""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from agents.messages.to_node import RunStage
from agents.node.settings import NodeSettings
from templates_lib.models.hub_weights import is_on_hub
from templates_lib.models.weights_place import weights_path
from templates_lib.values.engines import engine_kind

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside the node's own."""


def worker_commands(
    engine: str,
    run: RunStage,
    key: Path,
    settings: NodeSettings,
    meeting: Path,
    compute: float = 1.0,
    devices: tuple[int, ...] = (),
    processors: float = 1.0,
    member: tuple[Path, int] | None = None,
) -> tuple[WorkerCommand, ...]:
    """Return the commands of an executor's workers, replica by replica, and of each part by part: as the scheduler
    knows them by number. `meeting`: a new directory of theirs. `compute`: their share of it. `devices`: numbers of
    those of the node that are theirs; empty: all. `processors`: their share of the node's. `member`: socket of the KV
    cache that the node's models share, and which of them this is; None: it has its own.

    Raises NoWeightsError, and ValueError for an engine that this node does not have, and for more parts than layers."""
    python = python_of(engine, settings)
    count = run.replicas * run.parts
    threads, pace = cpu_share(settings, count, compute, processors)
    common = (
        *(str(python), "-m", "agents.stage", "--engine", engine),
        *("--scheduler", run.scheduler, f"--scheduler-key={run.scheduler_key}"),
        *("--key", str(key), "--checkpoint", checkpoint(run.weights), "--dtype", run.dtype),
        *("--kv-blocks", str(run.kv_blocks), "--threads", str(threads), "--pace", str(pace)),
        *("--interface", settings.interface),
        *(("--memory-mib", str(run.memory_mib // count)) if run.memory_mib else ()),
        *_devices(run, settings.device),
        *(() if member is None else ("--pool", str(member[0]), "--member", str(member[1]))),
    )
    ranges = _ranges(run) * run.replicas
    return tuple(
        WorkerCommand(
            (
                *(*common, "--worker", str(worker), "--first-layer", str(first_layer), "--layers", str(layers)),
                *_experts(run, worker, meeting),
            ),
            {VISIBLE: visible(worker, run.shards, devices, os.environ.get(VISIBLE))}
            if settings.device == "cuda"
            else {},
        )
        for worker, (first_layer, layers) in enumerate(ranges)
    )


def python_of(engine: str, settings: NodeSettings) -> Path:
    """Return the Python that has the engine. Raises ValueError for one that this node does not have."""
    kind = engine_kind(engine)
    python = settings.pythons.get(engine) if kind.python_variable else Path(sys.executable)
    if python is None:
        raise ValueError(f"this node has no {engine}: {kind.python_variable} is to name the Python of its environment")
    return python


def checkpoint(weights: str) -> str:
    """Return where a process finds the weights. What is on the hub it fetches itself, as that takes its time and may be
    broken off. Raises NoWeightsError."""
    return weights if is_on_hub(weights) else str(weights_path(weights))


def _ranges(run: RunStage) -> tuple[tuple[int, int], ...]:
    """(first layer, layers) of each part."""
    cut = part_layers(run.layers, run.parts)
    return tuple(zip(accumulate(cut[:-1], initial=run.first_layer), cut, strict=True))


def _devices(run: RunStage, kind: str) -> Iterator[str]:
    """Each worker sees its own devices only, so that all of them call theirs by the same names."""
    for device in range(run.shards):
        yield from ("--device", kind if kind == "cpu" else f"{kind}:{device}")
    if run.whole_experts:
        yield "--whole-experts"


def _experts(run: RunStage, worker: int, meeting: Path) -> tuple[str, ...]:
    """Each part of all replicas shares its experts with the same part of the others."""
    if not run.joint:
        return ()
    replica, part = divmod(worker, run.parts)
    store = str(meeting / f"part-{part}")
    return "--replica", str(replica), "--replicas", str(run.replicas), "--experts-store", store


def visible(worker: int, shards: int, devices: tuple[int, ...], given: str | None) -> str:
    """Return a process's devices, of the executor's `devices` and of those that the node itself may see.

    Nothing else keeps a process from taking memory of the first device, whichever it computes on. Raises ValueError
    where there are not as many."""
    own: Sequence[int] = range(worker * shards, (worker + 1) * shards)
    if devices:
        if own[-1] >= len(devices):
            raise ValueError(f"worker {worker} needs {own[-1] + 1} devices, and its executor has {len(devices)}")
        own = [devices[number] for number in own]
    if given is None:
        return ",".join(map(str, own))
    names = [name.strip() for name in given.split(",") if name.strip()]
    if max(own) >= len(names):
        raise ValueError(f"worker {worker} needs {max(own) + 1} devices of this node, and {VISIBLE} is {given!r}")
    return ",".join(names[number] for number in own)


def cpu_share(settings: NodeSettings, count: int, compute: float, processors: float) -> tuple[int, float]:
    """Return threads and pace of each of `count` engines, which share `compute` of the time of their devices and
    `processors` of the node's processors. Where these are what computes, shares of a thread are given by pace."""
    pace = settings.pace * compute
    if settings.device != "cpu" or pace == 1.0:
        return max(1, int(settings.threads * processors) // count), pace
    share = settings.threads * pace / count
    return math.ceil(share), share / math.ceil(share)


def part_layers(layers: int, parts: int) -> tuple[int, ...]:
    """Layers of each of `parts` consecutive parts: as even as they can be, as throughput and memory of such a node are
    computed (`templates_lib.throughput`). The larger ones come first: behind the last one there may be the LM head.

    Raises ValueError where a part would be empty.
    """
    if not 1 <= parts <= layers:
        raise ValueError(f"{layers} layers cannot be cut into {parts} parts")
    return tuple(layers // parts + (part < layers % parts) for part in range(parts))
