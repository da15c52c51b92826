"""How fast serving is simulated, on one core. Exits with 1 when a bar is missed.

    python -m bench.simulate_speed

The plan for examples/coral-extended.yaml (its library is built when it is not there) serves half an hour of Poisson
arrivals at the rates it was made for: the bar is 100 times real time. The same fleet beside copies of itself, until it
has 300 GPUs, and requests for all of them: the bar is 20,000 requests a second. Memory: the rest of a process's peak,
after requests and results, may not grow by more than 32 MB when the same load lasts three times as long. `stepping` is
the baseline: the same simulation over the production schedulers themselves, for the first minute.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from bench.evaluation.methods import checked_plan
from bench.evaluation.offered_load import offered_load
from bench.evaluation.rated_sets import pipeline_recipe
from bench.scenarios import set_up
from bench.stepping.simulation import Simulation
from control.planning.recipe import Recipe
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.plan_timeline import timeline_of_plan
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate

LENGTH_S, SEED = 1800.0, 20261122
BAR_TIMES, BAR_REQUESTS_PER_S, BAR_GPUS, BAR_MB = 100.0, 20_000.0, 300, 32.0


def gpus(fleet: FleetTimeline) -> int:
    nodes = [node.config for life in fleet.instances for stage in life.station.stages for node in stage.nodes]
    return sum(int(config.rpartition(":")[2].partition("/")[0]) for config in nodes)


def copies(requests: Requests, fleet: FleetTimeline, count: int) -> tuple[Requests, FleetTimeline]:
    """The same fleet `count` times in one, all models' instances behind one router, under as many times the load."""
    lives = tuple(replace(life, id=f"{life.id}/{n}") for n in range(count) for life in fleet.instances)
    (_, models), *_ = fleet.tables
    table = tuple(
        replace(model, members=tuple(replace(m, id=f"{m.id}/{n}") for n in range(count) for m in model.members))
        for model in models
    )
    draw = np.random.default_rng(SEED)
    again = np.repeat(np.arange(len(requests)), count)
    arrival_s = draw.uniform(0, requests.arrival_s[-1], len(again))
    order = np.argsort(arrival_s)
    columns = (requests.app[again], arrival_s, requests.prompt_tokens[again], requests.output_tokens[again])
    many = Requests(requests.apps, *(column[order] for column in columns))
    return many, replace(fleet, instances=lives, tables=((0.0, table),))


def first(requests: Requests, length_s: float) -> Requests:
    count = int(np.searchsorted(requests.arrival_s, length_s))
    columns = (requests.app, requests.arrival_s, requests.prompt_tokens, requests.output_tokens)
    return Requests(requests.apps, *(column[:count] for column in columns))


def timed(work: Callable[[], Served]) -> tuple[float, Served]:
    start = time.process_time()
    served = work()
    return time.process_time() - start, served


def peak_mb(requests: Requests, fleet: FleetTimeline) -> float:
    """Of a process that does nothing else, beside its requests and results."""
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        served = simulate(requests, fleet)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        kept = sum(getattr(served, field.name).nbytes for field in fields(served) if field.name != "use")
        os.write(writes, str((after - before) / 1024 - kept / 2**20).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return float(os.read(reads, 64))


def main() -> int:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    with set_up("extended") as made:
        plan = checked_plan("medley", made.snapshot, made.templates.library)
        recipe = pipeline_recipe(made)
        fleet = timeline_of_plan(made.templates.placed(plan)[0], Recipe((recipe,)), made.snapshot.routes, LENGTH_S)
        long = replace(fleet, length_s=3 * LENGTH_S)
        many_requests = offered_load(plan, made.snapshot, recipe, 3 * LENGTH_S, SEED)
    requests = first(many_requests, LENGTH_S)
    simulate(first(requests, 1.0), fleet)  # compiles
    took_s, served = timed(lambda: simulate(requests, fleet))
    tokens = int(served.made_tokens.sum())
    speed = LENGTH_S / took_s
    done = float((served.outcome == Outcome.SERVED).mean())
    print(
        f"{gpus(fleet)} GPUs, {len(fleet.instances)} instances, {len(requests):,} requests, {100 * done:.1f} % served"
    )
    print(
        f"half an hour in {took_s:.2f} s: {speed:.0f} x real time (bar {BAR_TIMES:.0f}), "
        f"{tokens / took_s / 1e6:.1f} million tokens/s"
    )

    count = -(-BAR_GPUS // gpus(fleet))
    large_requests, large = copies(requests, fleet, count)
    took_s, served = timed(lambda: simulate(large_requests, large))
    rate = len(large_requests) / took_s
    print(
        f"{gpus(large)} GPUs: {len(large_requests):,} requests in {took_s:.2f} s: {rate:,.0f}/s "
        f"(bar {BAR_REQUESTS_PER_S:,.0f})"
    )

    grown = peak_mb(many_requests, long) - peak_mb(requests, fleet)
    print(
        f"memory beside requests and results grows by {grown:.1f} MB from half an hour to one and a half "
        f"(bar {BAR_MB:.0f})"
    )

    few = first(requests, 60.0)
    exact = Simulation(few, replace(fleet, length_s=60.0), ServingSettings())
    start = time.process_time()
    exact.run()
    stepping_s = time.process_time() - start
    took_s, _ = timed(lambda: simulate(few, replace(fleet, length_s=60.0)))
    print(
        f"stepping takes {stepping_s:.1f} s for the first minute, this {took_s:.2f} s: "
        f"{stepping_s / took_s:.0f} times less"
    )
    return 0 if speed >= BAR_TIMES and rate >= BAR_REQUESTS_PER_S and grown <= BAR_MB else 1


if __name__ == "__main__":
    sys.exit(main())
