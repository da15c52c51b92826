"""Throughput that templates promise against what they reach: real pipelines on nodes of this machine, under quotas.

    python -m bench.local_throughput [--again]

Templates are those of `examples/local.yaml` for one shape of request, on measured profiles (kept in MEDLEY_HOME;
--again measures anew): of each phase the best of up to three stages of single nodes, and the best with data-parallel
peers. A pipeline of scheduler and stage workers in processes of their own is kept full; decode is counted while all
requests decode. `reached` is the measured rate over T̂, `TPOT` the mean time per output token; `busiest` the processor
time of the node that used most of its share: where that is far below 1 although the pipeline is full, others had the
machine. A decoding pipeline of single nodes also stands against one process with all their processors and the same
batch in a step: the torch engine with the whole model, and transformers' generate.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from bench.local_instance import Instance, Load, instance
from bench.local_instance import now as local_now
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.local.kinds import LocalMachine
from control.cloud.node import CloudNodeState, NodeRequest
from control.db.location import home_directory
from control.planning.local_profiles import ensure_profiles
from control.planning.recipe import PipelineRecipe, Recipe
from control.planning.templates import template_source
from control.planning.world import local_machines, read_world
from templates_lib.models import weights_places
from templates_lib.offer import Market
from templates_lib.placement import PipelinePlacement
from templates_lib.template import ServingTemplate
from templates_lib.work import Phase
from templates_lib.workload import WorkloadShape

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "local.yaml"
PROMPT, OUTPUT = 112, 64
"""Mean context 144 tokens, as `bench.torch_engine` has it for the single process."""
BAR, SINGLE_BAR = 0.9, 0.85
PREFILL_ROUNDS = 4
MOST_STAGES = 3
"""What the solver gives the example."""


@dataclass(frozen=True)
class Promise:
    phase: Phase
    template: ServingTemplate
    placement: PipelinePlacement
    tokens_per_s: float

    @property
    def has_peers(self) -> bool:
        return any(sum(nodes.count for nodes in stage.nodes) > 1 for stage in self.placement.stages)

    @property
    def text(self) -> str:
        return " | ".join(
            f"{stage.layers}: " + " + ".join(f"{n.count} {n.config.partition(':')[0]}" for n in stage.nodes)
            for stage in self.placement.stages
        )

    @property
    def concurrency(self) -> int:
        """Requests that keep every group of the pipeline full."""
        caps = [sum(n.count * n.batch_cap for n in stage.nodes) for stage in self.placement.stages]
        return len(self.placement.stages) * min(caps)


def promises(recipe: PipelineRecipe, machines: tuple[LocalMachine, ...]) -> Iterator[Promise]:
    """All templates that this machine has nodes for."""
    source, _ = template_source(Recipe(pipeline=recipe))
    stock = {f"{machine.name}:1/n10": machine.stock for machine in machines}
    for batch in source.build(source.units(), lambda *_: None):
        phase = Phase(batch.unit.rpartition("/")[2])
        for nodes, record in zip(batch.nodes, batch.records, strict=True):
            held = {c: int(n) for c, n in zip(source.configs, nodes, strict=True) if n}
            if all(n <= stock[config] for config, n in held.items()):
                template, capacity = source.materialise(record, held)
                placement = msgspec.convert(template.placement.payload, PipelinePlacement)
                yield Promise(phase, template, placement, *capacity.points[0].units_per_s.values())


@dataclass(frozen=True)
class Reached:
    tokens_per_s: float
    tpot_s: float
    """Mean; 0 where requests have one token."""
    busiest: float


async def decode(load: Load, served: Instance, promise: Promise, shares: dict[str, float]) -> Reached:
    requests = promise.concurrency
    attempts = load.send(requests, PROMPT, OUTPUT)
    await load.until(attempts, 600, first=True)
    before, start = served.cpu_s(), time.perf_counter()
    while not any(attempt in load.ends_s for attempt in attempts):
        await asyncio.sleep(0.05)
    after, end = served.cpu_s(), time.perf_counter()
    tokens = sum(count for at, count in load.tokens if start < at <= end)
    await load.until(attempts, 600)
    busy = max((after[name] - before[name]) / (end - start) / shares[name] for name in before)
    return Reached(tokens / (end - start), requests * (end - start) / tokens, busy)


async def prefill(load: Load, served: Instance, promise: Promise, shares: dict[str, float]) -> Reached:
    chunk = min(sum(n.count * n.chunk_tokens for n in stage.nodes) for stage in promise.placement.stages)
    requests = max(8, PREFILL_ROUNDS * len(promise.placement.stages) * chunk // PROMPT)
    attempts = load.send(requests, PROMPT, 1)
    # The pipeline is full from when the first have gone through until the last have gone in.
    await load.until(attempts[: requests // 4], 600)
    before, start, done = served.cpu_s(), time.perf_counter(), len(load.ends_s)
    while len(load.ends_s) < done + requests // 2:
        await asyncio.sleep(0.02)
    after, end, through = served.cpu_s(), time.perf_counter(), len(load.ends_s) - done
    await load.until(attempts, 600)
    busy = max((after[name] - before[name]) / (end - start) / shares[name] for name in before)
    return Reached(PROMPT * through / (end - start), 0.0, busy)


def single_process(cores: float, batch: int, home: Path) -> dict[str, float]:
    """Tokens/s of one process that has `cores` processors."""
    kind, out = LocalKind("whole", cores, 6000, 1), home / "single.json"
    cloud = LocalCloud(home / "whole", [kind])
    command = (sys.executable, "-m", "bench.local_single", "--batch", str(batch), "--out", str(out))
    environment = {"PYTHONPATH": str(ROOT)}
    cloud.create(NodeRequest("whole", "here", "here", "whole", Market.ON_DEMAND, {}, command, environment), local_now())
    try:
        while not out.exists() or not out.read_text():
            if not any(n.state is CloudNodeState.RUNNING for n in cloud.list({}, local_now())) and not out.exists():
                raise RuntimeError(cloud.log("whole").read_text()[-800:])
            time.sleep(0.2)
        return dict(json.loads(out.read_text()))
    finally:
        cloud.terminate("whole", local_now())


async def measured(served: Instance, promise: Promise, shares: dict[str, float]) -> Reached:
    load = Load(served, promise.template.model)
    await load.wait_up()
    reached = await (decode if promise.phase is Phase.DECODE else prefill)(load, served, promise, shares)
    load.close()
    return reached


def against_single(promise: Promise, found: Reached, cores: float) -> bool:
    """Whether the bar is missed."""
    batch = promise.concurrency // len(promise.placement.stages)
    with tempfile.TemporaryDirectory() as home:
        rates = single_process(cores, batch, Path(home))
    ratios = {name: found.tokens_per_s / rate for name, rate in rates.items()}
    print(
        f"one process of {cores:g} processors, batches of {batch}: "
        + ", ".join(f"{name} {rate:.0f} tokens/s (pipeline {ratios[name]:.2f} times)" for name, rate in rates.items())
        + f"; bar {SINGLE_BAR:g} of the engine",
        flush=True,
    )
    return ratios["engine"] < SINGLE_BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true")
    again = parser.parse_args().again
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nodes are given back
    world = read_world(EXAMPLE)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    world = ensure_profiles(world, home_directory(os.environ), lambda *_: None, now, again=again)
    shape = WorkloadShape("bench", np.array([PROMPT], np.int32), np.array([OUTPUT], np.int32))
    (served,) = (replace(one, shape=shape) for one in world.recipe.served)
    machines = local_machines(world.fleet)
    every = list(promises(replace(world.recipe, served=(served,), unpruned=(served.name,)), machines))
    cores = {machine.name: machine.cpu_cores for machine in machines}
    missed = False
    for phase in (Phase.PREFILL, Phase.DECODE):
        for has_peers in (False, True):
            able = [p for p in every if (p.phase, p.has_peers) == (phase, has_peers)]
            able = [p for p in able if len(p.placement.stages) <= MOST_STAGES]
            if not able:
                print(f"{phase}: no template {'with' if has_peers else 'without'} data-parallel peers")
                continue
            best = max(able, key=lambda p: p.tokens_per_s)
            with (
                tempfile.TemporaryDirectory() as home,
                instance(best.placement, machines, served.model, weights_places()[served.model.id], Path(home)) as one,
            ):
                shares = {name: cores[kind] for name, kind in one.nodes.items()}
                found = asyncio.run(measured(one, best, shares))
                memory = one.memory_mib()
            reached = found.tokens_per_s / best.tokens_per_s
            missed |= reached < BAR or found.tpot_s * 1000 > served.slo.tpot_ms
            took = ", ".join(f"{kind} {most}" for kind, most in memory.items())
            tpot = f", TPOT {found.tpot_s * 1000:.0f} of {served.slo.tpot_ms:g} ms" if found.tpot_s else ""
            print(
                f"{phase} {best.text}: T̂ {best.tokens_per_s:.0f} tokens/s, measured {found.tokens_per_s:.0f}, reached "
                f"{reached:.2f} (bar {BAR:g}){tpot}, busiest {found.busiest:.2f}; most MiB: {took}",
                flush=True,
            )
            if phase is Phase.DECODE and not has_peers:
                missed |= against_single(best, found, sum(shares.values()))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
