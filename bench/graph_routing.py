"""Static routing against routing by queue lengths, simulated, with what a query costs on this machine.

    python -m bench.graph_routing [--requests 4000] [--seed 1]

The Cornserve paper's deployment of InternVL3 38B (section 7.4): 4 encoders (E), and 6 executors of the whole model (EL)
on which the language model serves images that were encoded elsewhere, too; times by its Figure 2. Exits with 1 where
the schedule of this deployment is more than 2 % away from the paper's 9.27 requests/s or its 67.5 % of the images
through encoders.

*static*: the production router (`request-static-v1`), by the schedule. *shortest queue*: before each hop all executors
that could do what is next are asked how many requests they have, and the first of the least gets it. *two choices*: two
of them are. Executors serve one request after another. The gateway is one server: a decision takes it the processor
time of its queries, and the request the round trip of one; both are measured first, over TCP. Then the same with ten
and a hundred times as many executors.
"""

import argparse
import heapq
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import zmq

from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute, ZoneFlow
from policies.static_routing import StaticRouter
from templates_lib.cells.problem import CellProblem, TimedPath
from templates_lib.cells.region import Schedule, Shortage, schedule_of
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path, Visit
from templates_lib.values.work import Edge, Unit

ENCODE_S, LANGUAGE_S, BOTH_S = 1 / 1.6, 0.52, 0.91
"""Seconds of an image of 1920 by 1080: an A100 encodes 1.6 a second (2E/3PD), a pair of them serves 1.1 requests (four
monoliths: 4.4), of which the language model takes 0.52 s."""
ENCODERS, MONOLITHS = 4, 6
PAPER_PER_S, PAPER_ENCODED, NEAR = 9.27, 0.675, 0.02
IMAGE, ZONE = "image", "z"
ENCODE, LANGUAGE, BOTH = "vision", "language", "vision+language"
SECONDS = {ENCODE: ENCODE_S, LANGUAGE: LANGUAGE_S, BOTH: BOTH_S}
QUERIES, CHOICES = 4000, 1000
LOADS = (0.6, 0.8, 0.95)
SCALES = (1, 10, 100)


@dataclass(slots=True)
class Executor:
    """Serves one request after another, in the order in which they come."""

    name: str
    classes: tuple[str, ...]
    ends_s: deque[float] = field(default_factory=deque)
    """When each of the requests that it has will be done."""

    def length(self, at_s: float) -> int:
        while self.ends_s and self.ends_s[0] <= at_s:
            self.ends_s.popleft()
        return len(self.ends_s)

    def take(self, at_s: float, work_class: str) -> float:
        """Return when the request will be done."""
        self.length(at_s)
        end_s = max(at_s, self.ends_s[-1] if self.ends_s else at_s) + SECONDS[work_class]
        self.ends_s.append(end_s)
        return end_s


@dataclass(frozen=True, slots=True)
class Choice:
    executor: Executor
    work_class: str
    asked: int
    """Executors that were asked for it."""


Choose = Callable[[int, str, float], Choice]
"""(number of a request, class that was done last or nothing, now) → where it goes next."""


@dataclass(frozen=True, slots=True)
class QueryCost:
    busy_s: float
    """Processor time of who asks, for one query."""
    round_trip_s: float


def deployment(scale: int) -> list[Executor]:
    encoders = [Executor(f"E{number}", (ENCODE,)) for number in range(scale * ENCODERS)]
    return encoders + [Executor(f"EL{number}", (LANGUAGE, BOTH)) for number in range(scale * MONOLITHS)]


def schedule(scale: int) -> tuple[float, float]:
    """(requests/s, share through encoders) that the deployment serves at most, by the planner's own region."""
    options = (DeploymentOption((ENCODE,), 1, "E"), DeploymentOption((ENCODE, LANGUAGE), 2, "EL"))
    apart = Path((Visit("E", (ENCODE,)), Visit("EL", (LANGUAGE,))))
    whole = Path((Visit("EL", (ENCODE, LANGUAGE)),))
    paths = (TimedPath(IMAGE, apart, (ENCODE_S, LANGUAGE_S)), TimedPath(IMAGE, whole, (BOTH_S,)))
    problem, held = CellProblem(options, {IMAGE: 1.0}, paths), {"E": scale * ENCODERS, "EL": scale * MONOLITHS}
    short = schedule_of(problem, held, {IMAGE: 1000.0 * scale})
    assert isinstance(short, Shortage)
    most = short.served * 1000.0 * scale
    found = schedule_of(problem, held, {IMAGE: most * (1 - 1e-6)})
    assert isinstance(found, Schedule)
    return most, found.flows[0] / most


def static(executors: Sequence[Executor], per_s: float, encoded: float) -> Choose:
    """The production router over the planned split. It chooses all legs of a request at once."""
    members = tuple(
        RoutedInstance(each.name, ZONE, {name: 1 / SECONDS[name] for name in each.classes}) for each in executors
    )
    legs = {name: RoutedLeg(name, Unit.INVOCATION, 1.0) for name in SECONDS}
    apart = RoutedRoute("apart", (legs[ENCODE], legs[LANGUAGE]), (Edge(0, 1, 1.0),),
                        (ZoneFlow((ZONE, ZONE), per_s * encoded),))  # fmt: skip
    whole = RoutedRoute("whole", (legs[BOTH],), (), (ZoneFlow((ZONE,), per_s * (1 - encoded)),))
    router = StaticRouter({IMAGE: RoutedModel("internvl3", (apart, whole), members)})
    named = {each.name: each for each in executors}
    later: dict[int, Executor] = {}

    def choose(number: int, done: str, _: float) -> Choice:
        if done:
            return Choice(later.pop(number), LANGUAGE, 0)
        chosen = router.choose(IMAGE, f"request-{number}")
        assert chosen is not None
        if len(chosen.members) == 2:
            later[number] = named[chosen.members[1].id]
        return Choice(named[chosen.members[0].id], chosen.route.legs[0].work_class, 0)

    return choose


def by_queues(executors: Sequence[Executor], asked: int, rng: np.random.Generator) -> Choose:
    """`asked`: executors that are drawn and asked before each hop; 0: all."""
    able = {
        "": [(each, name) for each in executors for name in (ENCODE, BOTH) if name in each.classes],
        ENCODE: [(each, LANGUAGE) for each in executors if LANGUAGE in each.classes],
    }

    def choose(_: int, done: str, now_s: float) -> Choice:
        among = able[done]
        if asked:
            among = [among[place] for place in rng.choice(len(among), asked, replace=False)]
        executor, work_class = min(among, key=lambda each: each[0].length(now_s))
        return Choice(executor, work_class, len(among))

    return choose


def simulated(choose: Choose, arrival_s: np.ndarray, cost: QueryCost, choice_s: float) -> tuple[np.ndarray, float]:
    """(when each request is answered, share of them that encoders read). `choice_s`: of the gateway's time, for a
    choice without queries."""
    ends_s, apart = np.zeros(len(arrival_s)), 0
    hops = [(float(at_s), number, "") for number, at_s in enumerate(arrival_s)]
    heapq.heapify(hops)
    gateway_s = 0.0
    while hops:
        at_s, number, done = heapq.heappop(hops)
        starts_s = max(at_s, gateway_s)
        chosen = choose(number, done, starts_s)
        gateway_s = starts_s + choice_s + chosen.asked * cost.busy_s
        sent_s = gateway_s + (cost.round_trip_s if chosen.asked else 0.0)
        end_s = chosen.executor.take(sent_s, chosen.work_class)
        if chosen.work_class == ENCODE:
            apart += 1
            heapq.heappush(hops, (end_s, number, ENCODE))
        else:
            ends_s[number] = end_s
    return ends_s, apart / len(arrival_s)


def query_cost() -> QueryCost:
    """Ask another process how long its queue is, over TCP, as a gateway would."""
    busy_s, took_s = [], []
    with _asked_process() as endpoint, zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.connect(endpoint)
        for _ in range(QUERIES):
            start_s, processor_s = time.perf_counter(), time.process_time()
            socket.send(b"length")
            socket.recv()
            took_s.append(time.perf_counter() - start_s)
            busy_s.append(time.process_time() - processor_s)
        socket.send(b"")
    return QueryCost(statistics.mean(busy_s), statistics.median(took_s))


@contextmanager
def _asked_process() -> Iterator[str]:
    spawn = get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_answer, args=(there,), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.join(5)
        process.terminate()


def _answer(pipe: Connection) -> None:
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        pipe.send(f"tcp://127.0.0.1:{port}")
        while socket.recv():
            socket.send(b"3")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    most, encoded = schedule(1)
    off = max(abs(most / PAPER_PER_S - 1), abs(encoded / PAPER_ENCODED - 1))
    print(f"4E + 6EL serve {most:.2f} requests/s, {encoded:.1%} of them encoded apart "
          f"(the paper: {PAPER_PER_S:g}, {PAPER_ENCODED:.1%}; bar {NEAR:.0%}, off by {off:.1%})")  # fmt: skip
    cost = query_cost()
    print(f"a query takes {1e6 * cost.busy_s:.0f} us of processor time and {1e6 * cost.round_trip_s:.0f} us in all")
    loads = "".join(f"{f'p50, p99 at {load:.0%}':>20}" for load in LOADS)
    print(f"{'executors':>9}  {'policy':16}{'requests/s at most':>20}{'encoded apart':>15}{loads}")
    for scale in SCALES:
        compare(scale, asked.requests, asked.seed, cost)
    return int(off > NEAR)


def compare(scale: int, count: int, seed: int, cost: QueryCost) -> None:
    most, encoded = schedule(scale)
    arrival_s = np.cumsum(np.random.default_rng(seed).exponential(1.0, count))
    policies: dict[str, Callable[[], Choose]] = {
        "static": lambda: static(deployment(scale), most, encoded),
        "two choices": lambda: by_queues(deployment(scale), 2, np.random.default_rng(seed + 1)),
        "shortest queue": lambda: by_queues(deployment(scale), 0, np.random.default_rng(seed + 1)),
    }
    for name, made in policies.items():
        choice_s = choice_seconds(made()) if name == "static" else 0.0
        ends_s, apart = simulated(made(), np.zeros(count), cost, choice_s)
        row = f"{scale * (ENCODERS + MONOLITHS):9}  {name:16}{count / ends_s.max():20.2f}{apart:15.1%}"
        for load in LOADS:
            at_s = arrival_s / (load * most)
            took_s = simulated(made(), at_s, cost, choice_s)[0] - at_s
            p50, p99 = np.percentile(took_s, [50, 99])
            row += f"{f'{p50:.2f}, {p99:.2f} s':>20}"
        print(row)


def choice_seconds(choose: Choose) -> float:
    start_s = time.perf_counter()
    for number in range(CHOICES):
        choose(number, "", 0.0)
    return (time.perf_counter() - start_s) / CHOICES


if __name__ == "__main__":
    sys.exit(main())
