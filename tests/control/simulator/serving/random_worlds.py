"""Small random fleets, with everything that can happen to one, and requests for them."""

from dataclasses import replace

import numpy as np

from bench.text_tables import life_member, text_model
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.settings import ServingSettings
from control.timing.pipeline_model import NodeModel, PipelineModel, StageModel
from control.timing.step_table import StepTable, row_points, table_points
from policies.routing import BY_SLACK
from policies.routing_table import PromptTimes, RoutedModel
from policies.slack import PROMPT_POINTS
from templates_lib.values.slo import Slo

LENGTH_S = 60.0
World = tuple[Requests, FleetTimeline, ServingSettings]


def random_world(seed: int) -> World:
    """One or two apps, served whole or over two legs, by pipelines of one to four stages of one to three nodes."""
    dice = np.random.default_rng(seed)
    windows = tuple(int(w) for w in dice.choice([0, 0, 64], int(dice.integers(4, 9))))
    apps = ("a", "b")[: int(dice.integers(1, 3))]
    members = [member for app in apps for member in _members(dice, app, windows)]
    count = int(dice.integers(5, 80))
    requests = Requests(
        apps,
        dice.integers(0, len(apps), count),
        np.sort(dice.uniform(0, dice.choice([5, 40]), count)),
        dice.integers(1, dice.choice([30, 300]), count),
        dice.integers(1, dice.choice([5, 60]), count),
    )
    lives = tuple(life for life, _ in members)
    fleet = FleetTimeline(lives, _tables(dice, apps, members), LENGTH_S, {"a": 20.0})
    return requests, fleet, _settings(dice)


def by_slack(world: World, seed: int, refuses_late: bool = False) -> World:
    """The same, where requests wait in one queue for each app, with objectives and times that may be far from true."""
    requests, fleet, limits = world
    dice = np.random.default_rng(seed)

    def changed(model: RoutedModel) -> RoutedModel:
        slo = None if dice.random() < 0.2 else Slo(float(dice.uniform(10, 20_000)), 100.0, float(dice.choice([0, 500])))
        if slo is not None and refuses_late:
            slo = replace(slo, refuses_late=True)
        members = tuple(
            member
            if dice.random() < 0.2
            else replace(member, times=_times(dice), usd_per_hour=float(dice.uniform(0, 9)))
            for member in model.members
        )
        return replace(model, policy=BY_SLACK, objective=slo, members=members)

    tables = tuple((at_s, tuple(changed(model) for model in models)) for at_s, models in fleet.tables)
    return requests, replace(fleet, tables=tables), replace(limits, lead_s=float(dice.choice([0, 0.01, 1])))


def _times(dice: np.random.Generator) -> PromptTimes:
    latency_s = dice.uniform(0, 1) + PROMPT_POINTS * dice.uniform(0, 1e-3)
    return PromptTimes(tuple(latency_s), tuple(latency_s * dice.uniform(0.2, 1)), int(dice.integers(0, 100)))


def _settings(dice: np.random.Generator) -> ServingSettings:
    return ServingSettings(
        admits=bool(dice.random() < 0.3),
        max_wait_s=float(dice.choice([1, 30])),
        request_timeout_s=float(dice.choice([20, 600])),
        resume_wait_s=float(dice.choice([2, 30])),
        max_resumptions=int(dice.choice([0, 8])),
        max_waiting=int(dice.choice([2, 2048])),
        lost_after_s=float(dice.choice([0, 3])),
        request_s=float(dice.choice([0, 0.01])),
        reply_s=float(dice.choice([0, 0.01])),
        streams_kv=bool(dice.random() < 0.7),
    )


def _members(dice: np.random.Generator, app: str, windows: tuple[int, ...]) -> list[tuple[InstanceLife, float]]:
    """Instances, and the throughput that routers know of each."""
    two = dice.random() < 0.7
    legs = ["prefill"] * int(dice.integers(1, 3)) + ["decode"] * int(dice.integers(1, 4)) if two else []
    if not two or dice.random() < 0.3:
        legs += ["whole"] * int(dice.integers(1, 3))
    found = []
    for number, leg in enumerate(legs):
        ready_s = float(dice.uniform(0, 20)) if dice.random() < 0.3 else 0.0
        drain_s = float(dice.uniform(ready_s, LENGTH_S)) if dice.random() < 0.2 else np.inf
        gone_s = float(dice.uniform(ready_s, LENGTH_S)) if dice.random() < 0.6 else np.inf
        zone, pipeline = str(dice.choice(["z1", "z2"])), _pipeline(dice, windows)
        units_per_s = {"prefill": (100, 1000), "decode": (50, 500), "whole": (1, 10)}[leg]
        gone_s = max(gone_s, drain_s) if np.isfinite(drain_s) else gone_s
        life = InstanceLife(f"{app}{number}", app, leg, zone, pipeline, ready_s, drain_s, gone_s)
        found.append((life, float(dice.uniform(*units_per_s))))
    return found


def _tables(
    dice: np.random.Generator, apps: tuple[str, ...], members: list[tuple[InstanceLife, float]]
) -> tuple[tuple[float, tuple[RoutedModel, ...]], ...]:
    times = [0.0, *sorted(dice.uniform(0, 40, int(dice.integers(0, 3))).tolist())]
    return tuple((at_s, tuple(_table(dice, app, members) for app in apps)) for at_s in times)


def _table(dice: np.random.Generator, app: str, members: list[tuple[InstanceLife, float]]) -> RoutedModel:
    routed = [life_member(*each) for each in members if each[0].app == app and dice.random() < 0.93]
    return text_model(app, routed, per_request=100.0)


def _pipeline(dice: np.random.Generator, windows: tuple[int, ...]) -> PipelineModel:
    depth = int(dice.integers(1, 5))
    cuts = sorted(dice.choice(np.arange(1, len(windows)), depth - 1, replace=False).tolist())
    is_tight = dice.random() < 0.6
    stages = tuple(
        StageModel(int(layers), tuple(_node(dice, is_tight=is_tight) for _ in range(int(dice.integers(1, 4)))))
        for layers in np.diff([0, *cuts, len(windows)])
    )
    return PipelineModel(stages, 4096, 1000.0, windows, int(dice.choice([4, 16])), float(dice.choice([0, 1e-3])))


def _node(dice: np.random.Generator, *, is_tight: bool) -> NodeModel:
    return NodeModel(
        config="any",
        weight=float(dice.uniform(0.2, 1)),
        batch_cap=int(dice.integers(1, 7)),
        chunk_tokens=int(dice.integers(8, 100)),
        kv_blocks=int(dice.integers(8, 24) if is_tight else dice.integers(30, 300)),
        step=_step(dice),
        hop_s=float(dice.choice([0, 1e-3])),
        hop_s_per_token=1e-6 * float(dice.random()),
        hand_off_bytes_per_s=float(dice.uniform(1e6, 1e8)),
        quota_share=float(dice.choice([1, 1, 0.3])),
        quota_period_s=0.01,
        send_s_per_byte=float(dice.choice([0, 1e-8])),
        take_s_per_byte=float(dice.choice([0, 1e-8])),
    )


def _step(dice: np.random.Generator) -> StepTable:
    points, rows, parts = table_points(), row_points(), int(dice.choice([1, 1, 2, 3]))
    a, b, c, d = dice.uniform(0.5, 2, 4)
    return StepTable(
        rows_s=0.01 * a + 1e-4 * b * rows**0.9,
        head_s=dice.choice([0, 1]) * (0.001 + 1e-5 * rows),
        prompt_context_s=1e-7 * c * points,
        decode_context_s=1e-6 * d * np.minimum(points, 512),
        prompt_step_s=0.002 * a,
        prompt_token_s=1e-4 * b,
        decode_step_s=1e-4,
        replicas=int(dice.choice([1, 1, 2])),
        parts=parts,
        busy_share=1.0 if parts == 1 else float(dice.uniform(1 / parts, 0.7)),
    )
