"""Throughput that templates promise against what they reach: real pipelines on nodes of this machine, under quotas.

    python -m bench.local_throughput [--rounds 3] [--only decode,stages prefill,peers]

Templates are those of `bench/local_stages.yaml` (a pipeline of single nodes) and `bench/local_peers.yaml`
(data-parallel stages) for one shape of request, the best of each phase, on measured profiles. A pipeline of scheduler
and stage workers in processes of their own is given as many requests as `BAR` of its promise has under way at the
objective (Little's law): it reaches that much of T̂ just when it keeps the time per output token, `TPOT`. Decode is
counted while all of them decode.

A shared machine is a quarter faster in one hour than in the next, so every run has a sweep of the profile before and
one behind it: the first says what is served, and both together what T̂ of that placement is. `reached` is the measured
rate over T̂; `busiest` the processor time of the node that used most of its share: where that is far below 1 although
the pipeline is full, others had the machine. Cases take turns for `--rounds` rounds, and their medians are judged.

The decoding pipeline of single nodes also stands against one process: the torch engine with the whole model, and
transformers' generate, both with the batch that the pipeline has in a step (S groups of it are under way there), and
the engine with as many requests in its one batch as the pipeline has in all its groups. The bar is of the better
engine, and is judged where both have equal processor time: scheduler and stages, without quotas, on the one processor
that the single process has too. The ratio under quotas is printed beside it: there a stage computes for 2 to 5 ms of
each 10 and finds caches cold, which costs it up to half as much again and which one process with all of a processor
never pays. It is a property of small shares, counted in T̂, not of the pipeline.
"""

import argparse
import asyncio
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from bench.local_instance import Instance, Load, instance, now
from bench.pooled_profiles import pooled
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.local.kinds import LocalMachine
from control.cloud.node import CloudNodeState, NodeRequest
from control.hub.gang import chunk_tokens
from control.planning.local_profiles import ensure_profiles
from control.planning.recipe import PipelineRecipe
from control.planning.source_kinds import pipeline_source
from control.planning.world import read_world
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.workload import WorkloadShape
from templates_lib.models.catalogue import weights_places
from templates_lib.sources.pipeline_record import read_record
from templates_lib.values.node_profile import NodeProfile
from templates_lib.values.offer import Market
from templates_lib.values.placement import PipelinePlacement
from templates_lib.values.template import ServingTemplate
from templates_lib.values.work import Phase

ROOT = Path(__file__).resolve().parents[1]
PROMPT, OUTPUT = 112, 64
"""Mean context 144 tokens, as `bench.torch_engine` has it for the single process."""
BAR, SINGLE_BAR = 0.9, 0.85
PREFILL_ROUNDS = 20
"""Of each lane, as prompts come out by whole steps: with 4 of them the same pipeline reaches 0.77 of T̂ in simulation,
with 6 1.03, with 16 and more 0.94 to 0.99."""
OBJECTIVES = (1.0, 1.25, 0.8, 1.5, 0.6, 2.0, 0.5)
"""Times those of a spec, until this machine, as fast as it is now, has a template: where it is slow, for laxer ones;
where the best for every set of nodes is a pipeline of single ones, for tighter ones, which leave time for fewer stages.
"""
CASES = {
    "prefill,stages": (Phase.PREFILL, "stages"),
    "prefill,peers": (Phase.PREFILL, "peers"),
    "decode,stages": (Phase.DECODE, "stages"),
    "decode,peers": (Phase.DECODE, "peers"),
}
"""Phase and spec; peers: with data-parallel stages, else without."""
SPECS = {name: ROOT / "bench" / f"local_{name}.yaml" for name in ("stages", "peers")}
MOST_STAGES = 3
"""Two processors make nodes enough for as many."""


@dataclass(frozen=True)
class Promise:
    phase: Phase
    template: ServingTemplate
    placement: PipelinePlacement
    tokens_per_s: float
    record: bytes
    """Of the template, as its source has it."""

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
        """Requests under way; as far as the groups have room."""
        caps = [sum(n.count * n.batch_cap for n in stage.nodes) for stage in self.placement.stages]
        return min(len(self.placement.stages) * min(caps), math.ceil(BAR * self.tokens_per_s * tpot_ms / 1000))


def promises(recipe: PipelineRecipe, machines: tuple[LocalMachine, ...]) -> Iterator[Promise]:
    """All templates that this machine has nodes for."""
    source = pipeline_source(recipe)
    stock = {f"{machine.name}:1/n10": machine.stock for machine in machines}
    for batch in source.build(source.units(), lambda *_: None):
        phase = Phase(batch.unit.rpartition("/")[2])
        for nodes, record in zip(batch.nodes, batch.records, strict=True):
            held = {c: int(n) for c, n in zip(source.configs, nodes, strict=True) if n}
            if all(n <= stock[config] for config, n in held.items()):
                template, capacity = read_record(record, held)
                placement = msgspec.convert(template.placement.payload, PipelinePlacement)
                yield Promise(phase, template, placement, *capacity.points[0].units_per_s.values(), record)


@dataclass(frozen=True)
class Reached:
    tokens_per_s: float
    tpot_s: float
    """Mean; 0 where requests have one token."""
    busiest: float
    cpu_ms: float
    """Processor time of all nodes for a token."""
    memory_mib: dict[str, int] = field(default_factory=dict)


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
    cpu_ms = 1000 * (sum(after.values()) - sum(before.values())) / tokens
    return Reached(tokens / (end - start), requests * (end - start) / tokens, busy, cpu_ms)


async def prefill(load: Load, served: Instance, promise: Promise, shares: dict[str, float]) -> Reached:
    chunk = min(sum(n.count * chunk_tokens(stage, n) for n in stage.nodes) for stage in promise.placement.stages)
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
    cpu_ms = 1000 * (sum(after.values()) - sum(before.values())) / (PROMPT * through)
    return Reached(PROMPT * through / (end - start), 0.0, busy, cpu_ms)


def single_process(batch: int, all_at_once: int, home: Path) -> dict[str, float]:
    """Tokens/s of one process that has a processor, by way of decoding."""
    kind, out = LocalKind("whole", 1.0, 6000, 1), home / "single.json"
    cloud = LocalCloud(home / "whole", [kind])
    command = (sys.executable, "-m", "bench.local_single", "--batch", str(batch))
    command += ("--all-at-once", str(all_at_once), "--out", str(out))
    environment = {"PYTHONPATH": str(ROOT)}
    cloud.create(NodeRequest("whole", "here", "here", "whole", Market.ON_DEMAND, {}, command, environment), now())
    try:
        while not out.exists() or not out.read_text():
            if not any(n.state is CloudNodeState.RUNNING for n in cloud.list({}, now())) and not out.exists():
                raise RuntimeError(cloud.log("whole").read_text()[-800:])
            time.sleep(0.2)
        return dict(json.loads(out.read_text()))
    finally:
        cloud.terminate("whole", now())


@dataclass(frozen=True)
class Setting:
    recipe: PipelineRecipe
    machines: tuple[LocalMachine, ...]

    @property
    def served(self) -> ServedModel:
        return self.recipe.served[0]

    @property
    def tpot_ms(self) -> float:
        return self.served.slo.tpot_ms

    def promised(self, promise: Promise, profiles: tuple[NodeProfile, ...]) -> float:
        """Tokens/s that its placement sustains on these. Raises RuntimeError where it cannot keep the objective."""
        source = pipeline_source(replace(self.recipe, profiles=profiles))
        found = source.recertified(promise.record)
        if found is None:
            raise RuntimeError(f"{promise.text} cannot keep its objective any more: the machine is slower than it was")
        return found[1]


class Sweeps:
    """Of the profile, one behind the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._homes: list[Path] = []

    def measure(self) -> None:
        """Processor time has nothing to do with memory: the kinds of the peers speak for those of the stages."""
        self._homes.append(self._folder / str(len(self._homes)))
        at = now().isoformat(timespec="seconds")
        ensure_profiles(read_world(SPECS["peers"]), self._homes[-1], lambda *_: None, at)

    def last(self, number: int) -> tuple[NodeProfile, ...]:
        return pooled(self._homes[-number:])


async def measured(served: Instance, promise: Promise, tpot_ms: float, shares: dict[str, float]) -> Reached:
    load = Load(served, promise.template.model)
    await load.wait_up()
    if promise.phase is Phase.DECODE:
        reached = await decode(load, served, promise.concurrency(tpot_ms), shares)
    else:
        reached = await prefill(load, served, promise, shares)
    load.close()
    return reached


def serve(promise: Promise, world: Setting, pinned: bool = False) -> Reached:
    """`pinned`: all on one processor."""
    cores = {machine.name: machine.cpu_cores for machine in world.machines}
    weights = weights_places()[world.served.model.id]
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        with one_processor() if pinned else nullcontext():
            parts = instance(promise.placement, world.machines, world.served.model, weights, folder)
            one = opened.enter_context(parts)
        shares = {name: cores[kind] for name, kind in one.nodes.items()}
        found = asyncio.run(measured(one, promise, world.tpot_ms, shares))
        return replace(found, memory_mib=one.memory_mib())


@contextmanager
def one_processor() -> Iterator[None]:
    """What is started meanwhile stays on one processor of this machine."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def against_single(promise: Promise, found: Reached, world: Setting) -> float:
    """The pipeline's rate over that of the better engine in one process."""
    requests = promise.concurrency(world.tpot_ms)
    batch = requests // len(promise.placement.stages)
    machines = tuple(replace(machine, cpu_cores=1.0) for machine in world.machines)
    with tempfile.TemporaryDirectory() as home, one_processor():
        rates = single_process(batch, requests, Path(home))
    alike = serve(promise, replace(world, machines=machines), pinned=True)
    best = max(rate for name, rate in rates.items() if name.startswith("engine"))
    print(
        f"one process of 1 processor, batches of {batch}, and of {requests} all at once: "
        + ", ".join(f"{name} {rate:.0f} tokens/s" for name, rate in rates.items())
        + f"; pipeline on that processor {alike.tokens_per_s:.0f} ({alike.tokens_per_s / best:.2f} times; "
        f"transformers {alike.tokens_per_s / rates['transformers']:.2f} times), "
        f"under quotas {found.tokens_per_s:.0f} ({found.tokens_per_s / best:.2f} times)",
        flush=True,
    )
    return alike.tokens_per_s / best


def best_promise(case: str, profiles: tuple[NodeProfile, ...]) -> tuple[Promise, Setting]:
    """Raises RuntimeError where the solver makes no such template of the machines."""
    phase, spec = CASES[case]
    world = read_world(SPECS[spec])
    shape = WorkloadShape("bench", np.array([PROMPT], np.int32), np.array([OUTPUT], np.int32))
    (given,) = (replace(one, shape=shape) for one in world.recipe.served)
    machines = world.fleet.machines
    for times in OBJECTIVES:
        slo = replace(given.slo, ttft_ms=given.slo.ttft_ms * times, tpot_ms=given.slo.tpot_ms * times)
        served = replace(given, slo=slo)
        recipe = replace(world.recipe, served=(served,), unpruned=(served.name,), profiles=profiles)
        able = [p for p in promises(recipe, machines) if p.phase is phase and p.has_peers is (spec == "peers")]
        able = [p for p in able if 1 < len(p.placement.stages) <= MOST_STAGES]
        if able:
            return max(able, key=lambda p: p.tokens_per_s), Setting(recipe, machines)
    raise RuntimeError(f"no template for {case} on {SPECS[spec]}, be the objectives half or twice as lax")


@dataclass(frozen=True)
class Turn:
    """Of a case."""

    reached: float
    """Of T̂."""
    tpot: float
    """Of the objective."""
    of_single: float = math.inf


def turn(case: str, sweeps: Sweeps) -> Turn:
    best, world = best_promise(case, sweeps.last(1))
    found, tpot_ms = serve(best, world), world.tpot_ms
    sweeps.measure()
    promised = world.promised(best, sweeps.last(2))
    made = Turn(found.tokens_per_s / promised, found.tpot_s * 1000 / tpot_ms)
    took = ", ".join(f"{kind} {most}" for kind, most in found.memory_mib.items())
    tpot = f", TPOT {found.tpot_s * 1000:.0f} of {tpot_ms:g} ms" if found.tpot_s else ""
    print(
        f"{best.phase} {best.text}: T̂ {promised:.0f} tokens/s ({best.tokens_per_s:.0f} before), measured "
        f"{found.tokens_per_s:.0f}, reached {made.reached:.2f}{tpot}, busiest {found.busiest:.2f}, "
        f"{found.cpu_ms:.2f} ms of processor time a token; most MiB: {took}",
        flush=True,
    )
    return replace(made, of_single=against_single(best, found, world)) if case == "decode,stages" else made


def judged(case: str, turns: list[Turn]) -> bool:
    """Whether its bars are met."""
    middle = Turn(*(median(getattr(one, field.name) for one in turns) for field in fields(Turn)))
    is_met = middle.reached >= BAR and middle.tpot <= 1 and middle.of_single >= SINGLE_BAR
    tpot = f", TPOT {middle.tpot:.2f} of its objective" if middle.tpot else ""
    single = f", {middle.of_single:.2f} of one process (bar {SINGLE_BAR:g})" if middle.of_single < math.inf else ""
    verdict = "met" if is_met else "MISSED"
    print(f"{case}: reached {middle.reached:.2f} of T̂ (bar {BAR:g}){tpot}{single}: {verdict}")
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES, nargs="+", default=list(CASES), help="some of the four")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nodes are given back
    turns: dict[str, list[Turn]] = {case: [] for case in arguments.only}
    with tempfile.TemporaryDirectory() as folder:
        sweeps = Sweeps(Path(folder))
        sweeps.measure()
        for _ in range(arguments.rounds):
            for case, made in turns.items():
                made.append(turn(case, sweeps))
    are_met = [judged(case, made) for case, made in turns.items()]
    return int(not all(are_met))


if __name__ == "__main__":
    sys.exit(main())
