"""Throughput that templates promise against what they reach: real pipelines on nodes of this machine, under quotas.

    python -m bench.local_throughput [--again] [--only decode,stages]

Templates are those of `bench/local_stages.yaml` (a pipeline of single nodes) and `bench/local_peers.yaml`
(data-parallel stages) for one shape of request, the best of each phase, on measured profiles (kept in MEDLEY_HOME;
--again measures anew). A pipeline of scheduler and stage workers in processes of their own is given the requests that
its promise comes to at the objective; decode is counted while all of them decode. `reached` is the measured rate over
T̂, `TPOT` the mean time per output token; `busiest` the processor time of the node that used most of its share: where
that is far below 1 although the pipeline is full, others had the machine.

The decoding pipeline of single nodes also stands against one process with all their processors: the torch engine with
the whole model, and transformers' generate, both with the batch that the pipeline has in a step (the bar: S groups of
it are under way there), and the engine with as many requests in its one batch as the pipeline has in all its groups.
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
from templates_lib.served_model import ServedModel
from templates_lib.template import ServingTemplate
from templates_lib.work import Phase
from templates_lib.workload import WorkloadShape

ROOT = Path(__file__).resolve().parents[1]
PROMPT, OUTPUT = 112, 64
"""Mean context 144 tokens, as `bench.torch_engine` has it for the single process."""
BAR, SINGLE_BAR = 0.9, 0.85
PREFILL_ROUNDS = 4
CASES = {
    "prefill,stages": (Phase.PREFILL, "local_stages"),
    "prefill,peers": (Phase.PREFILL, "local_peers"),
    "decode,stages": (Phase.DECODE, "local_stages"),
    "decode,peers": (Phase.DECODE, "local_peers"),
}
"""Phase and spec; peers: with data-parallel stages, else without."""
MOST_STAGES = 3
"""Two processors make nodes enough for as many."""


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

    def concurrency(self, tpot_ms: float) -> int:
        """Requests that the promise comes to at the objective (Little's law), less half of what may be missed, so that
        the objective can be kept; as far as the groups have room."""
        caps = [sum(n.count * n.batch_cap for n in stage.nodes) for stage in self.placement.stages]
        offered = (1 + BAR) / 2 * self.tokens_per_s * tpot_ms / 1000
        return min(len(self.placement.stages) * min(caps), int(offered))


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


async def decode(load: Load, served: Instance, requests: int, shares: dict[str, float]) -> Reached:
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


def single_process(cores: float, batch: int, all_at_once: int, home: Path) -> dict[str, float]:
    """Tokens/s of one process that has `cores` processors, by way of decoding."""
    kind, out = LocalKind("whole", cores, 6000, 1), home / "single.json"
    cloud = LocalCloud(home / "whole", [kind])
    command = (sys.executable, "-m", "bench.local_single", "--batch", str(batch))
    command += ("--all-at-once", str(all_at_once), "--out", str(out))
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


async def measured(served: Instance, promise: Promise, tpot_ms: float, shares: dict[str, float]) -> Reached:
    load = Load(served, promise.template.model)
    await load.wait_up()
    if promise.phase is Phase.DECODE:
        reached = await decode(load, served, promise.concurrency(tpot_ms), shares)
    else:
        reached = await prefill(load, served, promise, shares)
    load.close()
    return reached


def against_single(promise: Promise, found: Reached, tpot_ms: float, cores: float) -> bool:
    """Whether the bar is missed."""
    requests = promise.concurrency(tpot_ms)
    batch = requests // len(promise.placement.stages)
    with tempfile.TemporaryDirectory() as home:
        rates = single_process(cores, batch, requests, Path(home))
    ratios = {name: found.tokens_per_s / rate for name, rate in rates.items()}
    print(
        f"one process of {cores:g} processors, batches of {batch}, and of {requests} all at once: "
        + ", ".join(f"{name} {rate:.0f} tokens/s (pipeline {ratios[name]:.2f} times)" for name, rate in rates.items())
        + f"; bar {SINGLE_BAR:g} of the engine",
        flush=True,
    )
    return ratios["engine"] < SINGLE_BAR


def best_promise(case: str, home: Path, now: str, again: bool) -> tuple[Promise, ServedModel, tuple[LocalMachine, ...]]:
    """Raises RuntimeError where the solver makes no such template of the machines."""
    phase, spec = CASES[case]
    world = read_world(ROOT / "bench" / f"{spec}.yaml")
    world = ensure_profiles(world, home, lambda *_: None, now, again=again)
    shape = WorkloadShape("bench", np.array([PROMPT], np.int32), np.array([OUTPUT], np.int32))
    (served,) = (replace(one, shape=shape) for one in world.recipe.served)
    machines = local_machines(world.fleet)
    every = promises(replace(world.recipe, served=(served,), unpruned=(served.name,)), machines)
    able = [p for p in every if p.phase is phase and p.has_peers is case.endswith("peers")]
    able = [p for p in able if 1 < len(p.placement.stages) <= MOST_STAGES]
    if not able:
        raise RuntimeError(f"no template for {case} on {spec}.yaml")
    return max(able, key=lambda p: p.tokens_per_s), served, machines


def run_case(case: str, home: Path, now: str, again: bool) -> bool:
    """Whether a bar is missed."""
    best, served, machines = best_promise(case, home, now, again)
    cores, tpot_ms = {machine.name: machine.cpu_cores for machine in machines}, served.slo.tpot_ms
    weights = weights_places()[served.model.id]
    with (
        tempfile.TemporaryDirectory() as folder,
        instance(best.placement, machines, served.model, weights, Path(folder)) as one,
    ):
        shares = {name: cores[kind] for name, kind in one.nodes.items()}
        found = asyncio.run(measured(one, best, tpot_ms, shares))
        memory = one.memory_mib()
    reached = found.tokens_per_s / best.tokens_per_s
    missed = reached < BAR or found.tpot_s * 1000 > tpot_ms
    took = ", ".join(f"{kind} {most}" for kind, most in memory.items())
    tpot = f", TPOT {found.tpot_s * 1000:.0f} of {tpot_ms:g} ms" if found.tpot_s else ""
    print(
        f"{best.phase} {best.text}: T̂ {best.tokens_per_s:.0f} tokens/s, measured {found.tokens_per_s:.0f}, reached "
        f"{reached:.2f} (bar {BAR:g}){tpot}, busiest {found.busiest:.2f}; most MiB: {took}",
        flush=True,
    )
    if case == "decode,stages":
        missed |= against_single(best, found, tpot_ms, sum(shares.values()))
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only", choices=CASES, help="one of the four")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nodes are given back
    now = datetime.now(UTC).isoformat(timespec="seconds")
    cases = (arguments.only,) if arguments.only else tuple(CASES)
    home = home_directory(os.environ)
    missed = [case for n, case in enumerate(cases) if run_case(case, home, now, arguments.again and not n)]
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
