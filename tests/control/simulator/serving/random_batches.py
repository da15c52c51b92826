"""Small random fleets of batch stations, and calls over routes of one to four legs for them."""

import numpy as np

from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.settings import ServingSettings
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute
from templates_lib.values.work import Edge, Unit

LENGTH_S = 120.0
CLASSES = ("see/encode", "talk/answer", "draw/paint")
UNREFUSED = ServingSettings(admits=False, max_waiting=100_000, request_timeout_s=1e6)


def random_batches(seed: int, *, dies: bool = False) -> tuple[Requests, FleetTimeline]:
    """One or two apps of one or two routes each, over stations of one to three work classes, some of which several
    apps share."""
    dice = np.random.default_rng(seed)
    lives = [_life(dice, number, own, dies=dies) for number, own in enumerate(_served(dice))]
    apps = ("a", "b")[: int(dice.integers(1, 3))]
    members = tuple(_member(dice, life) for life in lives)
    table = tuple(
        RoutedModel(app, tuple(_route(dice, f"{app}/{n}") for n in range(int(dice.integers(1, 3)))), members)
        for app in apps
    )
    count = int(dice.integers(1, 120))
    ones = np.ones(count, np.int64)
    arrival_s = np.sort(dice.uniform(0, dice.choice([1, 60]), count))
    requests = Requests(apps, dice.integers(0, len(apps), count), arrival_s, ones, ones)
    return requests, FleetTimeline(tuple(lives), ((0.0, table),), LENGTH_S)


def _served(dice: np.random.Generator) -> list[list[str]]:
    """Classes of each station: every class is served by one at least."""
    some = [[str(n) for n in dice.permutation(CLASSES)[: int(dice.integers(1, 4))]] for _ in range(dice.integers(0, 4))]
    return [[name] for name in CLASSES] + some


def _life(dice: np.random.Generator, number: int, classes: list[str], *, dies: bool) -> InstanceLife:
    points = [{name: float(dice.uniform(20, 200)) for name in classes} for _ in range(int(dice.integers(1, 4)))]
    points += [{name: float(dice.uniform(20, 400))} for name in classes if dice.random() < 0.5]
    batch_s = float(dice.choice([0, 0.5, 3]))
    ready_s = float(dice.uniform(0, 20)) if dies and dice.random() < 0.5 else 0.0
    gone_s = float(dice.uniform(ready_s, LENGTH_S)) if dies and dice.random() < 0.5 else np.inf
    station = BatchModel(
        tuple(points),
        batch_s=batch_s,
        start_s=batch_s * float(dice.choice([0, 0.3])),
        lanes=int(dice.integers(1, 4)),
        bytes_per_s=float(dice.uniform(1e6, 1e8)),
    )
    return InstanceLife(f"i{number}", "", "", str(dice.choice(["z1", "z2"])), station, ready_s=ready_s, gone_s=gone_s)


def _member(dice: np.random.Generator, life: InstanceLife) -> RoutedInstance:
    return RoutedInstance(life.id, life.zone, {name: float(dice.uniform(1, 5)) for name in sorted(life.work_classes)})


def _route(dice: np.random.Generator, name: str) -> RoutedRoute:
    """A chain, or several legs that the last one joins."""
    count = int(dice.integers(1, 5))
    is_chain = dice.random() < 0.5
    edges = tuple(
        Edge(leg, leg + 1 if is_chain else count - 1, float(dice.choice([0, 1e5, 1e7]))) for leg in range(count - 1)
    )
    legs = (RoutedLeg(str(dice.choice(CLASSES)), Unit.INVOCATION, float(dice.uniform(1, 50))) for _ in range(count))
    return RoutedRoute(name, tuple(legs), edges)
