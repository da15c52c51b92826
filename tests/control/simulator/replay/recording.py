"""A span on record: the real loop, planner and database at a cloud whose prices and stock move, in time that a test
makes pass. Gateways are what they report; nodes are what they say."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import cos, inf, pi
from pathlib import Path

from agents.messages.to_demand_desk import Offered, OfferedLine
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.instances import PostgresInstances
from control.db.libraries import PostgresLibraries
from control.db.live_offers import CloudMarket, PostgresOffers
from control.db.plans import PostgresPlans
from control.fleet_file.document import parse
from control.market.live_market import LiveMarket
from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from control.planning.session import PlanningSession
from control.planning.world import world_of
from control.reconcile.metered_demand import MeteredDemand
from control.simulator.log_cloud import LogCloud
from control.simulator.offer_log import OfferLog
from control.simulator.plane import ControlPlane
from control.simulator.simulated_timings import SimulatedTimings
from control.simulator.step_log import StepLog
from control.simulator.watched_planner import WatchedPlanner
from templates_lib.values.offer import Market, Offer

START = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=1)
"""Rows say when they were written, and a replay looks for those of its span among the later ones."""
STARTUP_S = 300.0
DRAIN_S = 120.0
SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {{ttft_ms: 2000, tpot_ms: 200, keep: throughput}}
    workload: azure-code
    weights: path:{weights}
    disaggregated: false
    aggregated: true
    demand: {{metered: true}}
clouds:
  - cloud: aws
    regions: [us-east-1, us-east-2]
    gpus: [L4, A10G]
    counts: [1]
    markets: [on-demand, spot]
reconcile: {{replan_minutes: 10}}
solver: {{n_max: 1, gap: 0.0001}}
"""
APP = "gpt-oss-20b"
Stock = Callable[[Offer], StepLog]


def plenty(offer: Offer) -> StepLog:
    return StepLog((0.0,), (inf,))


def requests_per_s(minute: int) -> float:
    """A wave of two hours, from 3 to 15."""
    return 9 - 6 * cos(2 * pi * minute / 120)


class Recording:
    """One fleet, named chat."""

    def __init__(self, database: Database, folder: Path, stock: Stock = plenty) -> None:
        self.database, self.folder = database, folder
        (folder / "weights").mkdir()
        self.spec = SPEC.format(weights=folder / "weights")
        self.quotes: Quotes = ShippedOffers(
            [Selection("aws", regions=("us-east-1", "us-east-2"), gpus=("L4", "A10G"), counts=(1,),
                       markets=(Market.ON_DEMAND, Market.SPOT))]
        ).fetch()  # fmt: skip
        self._world = world_of(parse(self.spec, str(folder / "chat.yaml")))
        self._minute = 0
        session = PlanningSession(PostgresLibraries(database), PostgresPlans(database), lambda *_: None, lambda: 0.0)
        logs = [OfferLog(offer, StepLog((0.0,), (offer.usd_per_hour,)), stock(offer)) for offer in self.quotes.offers]
        self.plane = ControlPlane(
            database,
            lambda log: WatchedPlanner(
                session, self._world, LiveMarket(database), MeteredDemand(database),
                PostgresInstances(database).drained_since, log.planned,
            ),
            {"aws": LogCloud("aws", logs, START, seed=1)},
            SimulatedTimings((STARTUP_S, STARTUP_S), {(APP, "whole"): DRAIN_S}, seed=1),
            START,
        )  # fmt: skip

    def begin(self) -> None:
        """An hour of demand, and the fleet is on record."""
        self._minute = -60
        self._report(0, heard=True)
        self._refresh()
        self.plane.hold("chat", self.spec, str(self.folder))

    def run(self, steps: int, *, heard: bool = True, led: bool = True) -> None:
        """So many times ten minutes: what clouds and gateways say comes first, as it would have by then. `heard`:
        gateways reach the control plane. `led`: there is one."""
        for _ in range(steps):
            self._refresh()
            for _ in range(10):
                for _ in self.plane.run_until(60.0 * (self._minute + 1)) if led else ():
                    pass
                self._report(self._minute + 1, heard=heard)
            self.plane.now_s = max(self.plane.now_s, 60.0 * self._minute)

    def _refresh(self) -> None:
        """Spot prices go up and down, each zone by itself; on demand they stay."""
        turn = self._minute // 10
        offers = tuple(
            replace(offer, usd_per_hour=round(offer.usd_per_hour * (1 + 0.3 * cos(turn + n)), 4))
            if offer.market is Market.SPOT
            else offer
            for n, offer in enumerate(self.quotes.offers)
        )
        now = START + timedelta(minutes=self._minute)
        PostgresOffers(self.database).answered(
            CloudMarket("aws", "test", now, now, offers=offers, configs=self.quotes.configs), partly=False
        )

    def _report(self, until_minute: int, *, heard: bool) -> None:
        reports = []
        for minute in range(self._minute, until_minute):
            n = round(60 * requests_per_s(max(minute, 0)))
            line = OfferedLine("chat", APP, "chat", "", n, 0, 2048 * n, 28 * n, n, 2048 * n, 28 * n)
            at = START + timedelta(minutes=minute)
            reports.append(("gateway", Offered("1", int(at.timestamp()), 60, 1, (line,))))
        if heard:
            PostgresDemand(self.database).record(reports, START + timedelta(minutes=until_minute))
        self._minute = until_minute
