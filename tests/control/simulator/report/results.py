"""A simulation's result, put together by hand: two models, a node that comes late, one that is taken."""

import numpy as np

from control.simulator.result import (
    Epoch,
    Facts,
    InstanceSpan,
    NodeSpan,
    SimulatedModel,
    SimulationEvent,
    SimulationResult,
)
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served, Use
from control.timing.pipeline_model import NodeModel, PipelineModel, StageModel
from control.timing.step_table import POINTS, StepTable
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.slo import Slo

LENGTH_S = 7200.0
EPOCH_S = 600.0
ZONE, CONFIG = "aws/use1-az1", "L4:1/n25"
NOTHING = np.zeros(POINTS)
APPS = ("chat", "code")
SHAPE = WorkloadShape("any", np.array([1000], np.int32), np.array([150], np.int32))
SLOS = {"chat": Slo(1000.0, 50.0), "code": Slo(500.0, 30.0, ttft_ms_per_1k_prompt_tokens=100.0, percentile=95.0)}


def result(requests_per_s: float = 2.0, seed: int = 3) -> SimulationResult:
    requests = _requests(requests_per_s, seed)
    node = NodeModel(CONFIG, 1.0, 8, 512, 1000, StepTable(NOTHING, NOTHING, NOTHING, NOTHING, 0.0, 0.0, 0.0))
    pipeline = PipelineModel((StageModel(2, (node,)),), 4096, 1024.0, (0, 0))
    lives = (
        InstanceLife("chat-1", "chat", "whole", ZONE, pipeline, 0.0),
        InstanceLife("code-1", "code", "whole", ZONE, pipeline, 1800.0, gone_s=5400.0),
    )
    return SimulationResult(
        facts=Facts(
            "two-models", "chat-fleet", "medley", "spec", "2024-08-02T00:00:00+00:00", LENGTH_S, seed, EPOCH_S,
            "estimated", ("requests: Poisson",), ("code is <new> & small",),
        ),
        models=tuple(SimulatedModel(app, SLOS[app], {f"{app}/aggregated": (1.0, 0.0, 0.0)}, SHAPE) for app in APPS),
        requests=requests,
        served=_served(requests, seed),
        fleet=FleetTimeline(lives, (), LENGTH_S),
        epochs=tuple(_epoch(n) for n in range(round(LENGTH_S / EPOCH_S))),
        instances=(
            InstanceSpan("chat-1", "chat", "aggregated", "t1", ZONE, "spot", {CONFIG: 1}, 1, 0.0, 0.0, None, None),
            InstanceSpan("code-1", "code", "aggregated", "t2", ZONE, "spot", {CONFIG: 1}, 1, 1500.0, 1800.0, None, 5400.0),  # noqa: E501
        ),
        nodes=(
            NodeSpan("n1", "chat-1", f"{ZONE}/g6.xlarge/spot", CONFIG, ZONE, "spot", 0.0, LENGTH_S, 1.0),
            NodeSpan("n2", "code-1", f"{ZONE}/g6.xlarge/spot", CONFIG, ZONE, "spot", 1500.0, 5400.0, 0.5),
        ),
        events=(SimulationEvent(-60.0, "plan.accepted", "p", ""), SimulationEvent(5400.0, "node.taken", "n2", "spot")),
        spent_usd=1.5,
        plane_wall_s=12.0,
        serving_wall_s=3.0,
    )  # fmt: skip


def _requests(requests_per_s: float, seed: int) -> Requests:
    chance = np.random.default_rng(seed)
    n = round(requests_per_s * LENGTH_S)
    arrivals = np.sort(chance.uniform(0, LENGTH_S, n))
    return Requests(APPS, chance.integers(0, 2, n), arrivals, chance.integers(1, 2000, n), chance.integers(1, 300, n))


def _served(requests: Requests, seed: int) -> Served:
    chance, n = np.random.default_rng(seed + 1), len(requests)
    outcome = chance.choice([Outcome.SERVED, Outcome.REFUSED, Outcome.LOST], n, p=[0.96, 0.03, 0.01]).astype(np.int8)
    first_s = requests.arrival_s + chance.lognormal(-1.5, 0.6, n)
    finish_s = first_s + (requests.output_tokens - 1) * chance.lognormal(-4.0, 0.4, n)
    outcome[(finish_s > LENGTH_S) & (outcome == Outcome.SERVED)] = Outcome.UNFINISHED
    first_s[(first_s > LENGTH_S) | (outcome == Outcome.REFUSED)] = np.nan
    finish_s[outcome != Outcome.SERVED] = np.nan
    made = np.where(outcome == Outcome.SERVED, requests.output_tokens, np.where(np.isnan(first_s), 0, 1))
    who = np.where(np.isnan(first_s), -1, requests.app)
    nothing = np.full(n, np.nan)
    zeros = np.zeros(n, np.int32)
    return Served(
        outcome, who[:, None], np.where(np.isnan(first_s), np.nan, 0.01), first_s, nothing, nothing, finish_s, made,
        zeros, zeros, Use(EPOCH_S, np.array([0, 3]), (np.full(12, 300.0), np.full(6, 150.0))),
    )  # fmt: skip


def _epoch(n: int) -> Epoch:
    short = {"code": 0.25} if n < 3 else {}
    return Epoch(
        n * EPOCH_S, (n + 1) * EPOCH_S, f"plan-{n // 6}", 0.7, 0.05, 0.01, 1.5 / 12, 0.2,
        {"chat": 1.0, "code": 1.0}, short, {"chat": 1.0, "code": 1.0},
        {"chat/aggregated": 2.0, "code/aggregated": 0.0 if n < 3 else 2.0},
        {"chat/aggregated": 1.0, "code/aggregated": 1.0},
    )  # fmt: skip
