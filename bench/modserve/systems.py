"""The systems of the paper's ablation (5.1), and what requests see of them."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from bench.modserve.stages import TEXT_GPUS, Stages, Traffic, median_text
from control.simulator.pools.encoder import Encoder
from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.pool_run import Member, PoolRun
from control.simulator.pools.row_link import RowLink
from policies.pools.dispatches import DISPATCHES

PERCENTILE = 99.0
AFTER_S = 600.0
"""How long after the last request answers are waited for."""


@dataclass(frozen=True, slots=True)
class System:
    name: str
    dispatch: str
    """Of `policies.pools.dispatches.DISPATCHES`."""
    texts: int
    encoders: int
    """0: monoliths."""
    text_gpus: int = TEXT_GPUS
    encoder_gpus: int = 1

    @property
    def gpus(self) -> int:
        return self.texts * self.text_gpus + self.encoders * self.encoder_gpus

    def split(self, texts: int, encoders: int) -> "System":
        return replace(self, name=f"{self.name} {texts}:{encoders}", texts=texts, encoders=encoders)

    def serve(self, stages: Stages, requests: list[PoolRequest], link: RowLink | None = None) -> list[PoolRequest]:
        """Write into the requests what becomes of them."""
        dispatch = DISPATCHES[self.dispatch]
        run = PoolRun(dispatch, link or stages.link(), Rates(stages))
        encoders: list[Member] = [stages.encoder(f"e{n}", self.encoder_gpus) for n in range(self.encoders)]
        if self.encoders:
            texts: list[Member] = [
                stages.text_instance(f"t{n}", self.text_gpus, dispatch.turn) for n in range(self.texts)
            ]
        else:
            texts = [stages.monolith(f"m{n}", self.text_gpus) for n in range(self.texts)]
        run.add([*encoders, *texts])
        run.run(requests, requests[-1].asked_s + AFTER_S)
        return requests


MONOLITH = System("monolith", "static-fcfs", 32, 0)
DECOUPLED = System("decoupled", "static-fcfs", 20, 48)
SCHED = System("+ scheduling", "static-slack", 20, 48)
WHOLE = System("+ routing", "late-pull-v1", 20, 48)
ABLATION = (MONOLITH, DECOUPLED, SCHED, WHOLE)


@dataclass(frozen=True, slots=True)
class Rates:
    """Capacity of members, by which what waits at them is compared: all of a pool are alike here."""

    stages: Stages

    def __call__(self, member: Member) -> float:
        if isinstance(member, Encoder):
            return member.times.tokens_per_s(max(self.stages.parts(500.0, 500.0)))
        text = median_text()
        return text / member.times.prompt_s(text, 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """What requests saw: arrays over them, infinite where no token came."""

    ttft_s: np.ndarray
    tpot_s: np.ndarray
    has_images: np.ndarray

    @property
    def mean_s(self) -> float:
        return float(self.ttft_s.mean())

    @property
    def p99_s(self) -> float:
        return float(np.percentile(self.ttft_s, PERCENTILE))

    def attained(self, stages: Stages, factor: float) -> float:
        """Share of requests within `factor` times what one alone takes on a monolith: text alone, or text and one
        picture (5.1), and of the time between its tokens."""
        alone_s, pictured_s, tbt_s = stages.isolated(median_text())
        due_s = factor * np.where(self.has_images, pictured_s, alone_s)
        return float(((self.ttft_s <= due_s) & ~(self.tpot_s > factor * tbt_s)).mean())


@lru_cache(maxsize=4096)
def seen(system: System, traffic: Traffic, per_s: float, count: int = 0) -> Seen:
    """Serve traffic at a rate. `count`: requests; 0: all of the windows."""
    done = system.serve(traffic.stages, traffic.requests(per_s, count))
    ttft_s = np.array([each.ttft_s for each in done])
    tpot_s = np.array([each.tpot_s for each in done])
    tpot_s[[np.isnan(each.finish_s) for each in done]] = np.inf
    return Seen(np.where(np.isnan(ttft_s), np.inf, ttft_s), tpot_s, np.array([bool(each.images) for each in done]))


def capacity(system: System, traffic: Traffic) -> float:
    """Requests/s of monoliths that prefill and encode all the time, and write nothing: loads are told in it."""
    requests = traffic.requests(1.0)
    alone_s = [traffic.stages.alone_s(each.text_tokens, each.images, system.text_gpus) for each in requests]
    return system.texts * len(requests) / sum(alone_s)


def highest_load(system: System, traffic: Traffic, factor: float, count: int = 0, *, within: float = 0.04) -> float:
    """Requests/s up to which 99 % are in time, to within so much of it; 0: not even at one in a hundred seconds of each
    GPU."""
    low, high = 0.01 * system.gpus, 0.25 * system.gpus
    if not _holds(system, traffic, factor, low, count):
        return 0.0
    while _holds(system, traffic, factor, high, count):
        low, high = high, 2 * high
    while high / low > 1 + within:
        middle = (low * high) ** 0.5
        if _holds(system, traffic, factor, middle, count):
            low = middle
        else:
            high = middle
    return low


def _holds(system: System, traffic: Traffic, factor: float, per_s: float, count: int) -> bool:
    return seen(system, traffic, per_s, count).attained(traffic.stages, factor) >= PERCENTILE / 100
