"""The snapshots on which the allocator is measured, each with the library it is planned over."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from bench import synthetic_library
from bench.running_fleet import CHANGES, carried_out
from bench.scenarios import scarce, set_up
from control.allocator import solve
from control.planning.recording import versioned
from templates_lib.values.library import Library
from templates_lib.values.offer import Offer
from templates_lib.values.settings import Mode, Settings, WorkLimits
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.traffic import TrafficPrice

STOCKS = ("normal", "scarce")
ZONES = {"aws/us-east-2": 4, "aws/ap-northeast-2": 3, "gcp/us-central1": 3}
"""Zones that each region of the extended set-up is cut into: ten."""
BETWEEN_ZONES_USD_PER_GB = {"aws": 0.02, "gcp": 0.01}
"""Of one region, out and in again: templates_lib/data/prices/traffic_zones.csv."""
SEED = 7

Made = tuple[Snapshot, Library]


@dataclass(frozen=True, slots=True)
class Bars:
    near_s: float
    """Seconds to a plan within `near` of the best known."""
    near: float = 0.005
    proof_s: float | None = None
    """Seconds to a proven gap of at most 1 %."""
    plain: bool = False
    """Whether the plan is compared with plain HiGHS on the full model."""


PAPER = Bars(2.0, proof_s=20.0, plain=True)
AGAIN = Bars(2.0, proof_s=20.0)
TEN_ZONES = Bars(10.0)
HUGE = Bars(60.0, near=0.01)
STRESS = Bars(math.inf)
"""Harder than what bars speak of: shown, not judged by time."""
HUGE_PROOF = 4_000
"""Columns to prove at most: beyond, a proof of 22 million columns takes minutes and raises the bound by little."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    name: str
    bars: Bars
    make: Callable[[], Made]


def cases() -> list[Case]:
    """Snapshots are made when they are asked for; what they share is made once."""
    found = [Case(f"extended, {stock}", PAPER, partial(_extended, stock)) for stock in STOCKS]
    found += [
        Case(f"extended, {stock}, {change}", AGAIN, partial(_replan, stock, change))
        for stock in STOCKS
        for change in CHANGES
    ]
    found += [Case(f"10 zones, {stock}", TEN_ZONES, partial(_ten_zones, stock)) for stock in STOCKS]
    made = partial(_synthetic, 1)
    found.append(Case("synthetic, normal", STRESS, partial(made, 3, Mode.PAPER, 20.0)))
    found.append(Case("synthetic, scarce", STRESS, partial(made, 3, Mode.PAPER, 4.0)))
    found.append(Case("synthetic 10 zones, normal", TEN_ZONES, partial(made, 10, Mode.ZONES, 6.0)))
    found.append(Case("synthetic 10 zones, scarce", STRESS, partial(made, 10, Mode.ZONES, 2.0)))
    found.append(Case("22 million columns", HUGE, partial(_synthetic, 4, 20, Mode.PAPER, 10.0, HUGE_PROOF)))
    return found


@cache
def _set_up() -> Made:
    with set_up("extended") as made:
        return made.snapshot, made.templates.library


def _extended(stock: str) -> Made:
    snapshot, library = _set_up()
    return (scarce(snapshot, "extended") if stock == "scarce" else snapshot), library


@cache
def _fleet(stock: str) -> Snapshot:
    snapshot, library = _extended(stock)
    return carried_out(snapshot, solve(snapshot, library))


def _replan(stock: str, change: str) -> Made:
    return versioned(CHANGES[change](_fleet(stock))), _set_up()[1]


def _ten_zones(stock: str) -> Made:
    """Every region in zones of the same prices; its stock is spread over them by a seeded draw."""
    snapshot, library = _extended(stock)
    random = np.random.default_rng(SEED)
    offers: list[Offer] = []
    for offer in snapshot.offers:
        zones = ZONES[offer.zone_id]
        share = random.multinomial(offer.available_count or 0, np.full(zones, 1 / zones))
        offers += [replace(offer, zone=f"{offer.zone}-{i}", available_count=int(n)) for i, n in enumerate(share)]
    prices = {(t.source, t.target): t.usd_per_gb for t in snapshot.traffic}
    prices |= {(region, region): BETWEEN_ZONES_USD_PER_GB[region.partition("/")[0]] for region in ZONES}
    places = [(region, f"{region}-{i}") for region, zones in ZONES.items() for i in range(zones)]
    traffic = [TrafficPrice(a, b, prices[of, other]) for (of, a), (other, b) in itertools.permutations(places, 2)]
    settings = replace(snapshot.settings, mode=Mode.ZONES)
    return versioned(replace(snapshot, offers=tuple(offers), traffic=tuple(traffic), settings=settings)), library


@cache
def _library(copies: int) -> Library:
    return synthetic_library.library(SEED, copies=copies)


def _synthetic(copies: int, zones: int, mode: Mode, available: float, proof_columns: int | None = None) -> Made:
    library = _library(copies)
    limits = WorkLimits() if proof_columns is None else WorkLimits(proof_columns=proof_columns)
    settings = Settings(mode=mode, seed=SEED, limits=limits)
    made = synthetic_library.snapshot(
        library, SEED, zones=zones, settings=settings, requests_per_s=25.0, available=available
    )
    return versioned(made), library
