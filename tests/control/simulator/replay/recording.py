"""A span on record: the real loop, planner and database at a cloud whose prices and stock move, in time that a test makes
pass. Gateways are what they report; nodes are what they say."""

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
from control.market.live_market import LiveMarket
from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from control.planning.session import Session
from control.planning.world import World, world_of
from control.reconcile.metered_demand import MeteredDemand
from control.simulator.log_cloud import LogCloud
from control.simulator.node_manner import NodeManner
from control.simulator.offer_log import OfferLog
from control.simulator.plane import ControlPlane
from control.simulator.step_log import StepLog
from control.simulator.watched_planner import WatchedPlanner
from control.spec.document import parse
from templates_lib.offer import Market, Offer

START = datetime(2026, 11, 20, 8, tzinfo=UTC)
STEP = timedelta(minutes=10)
STARTUP_S = 300.0
DRAIN_S = 120.0
SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {{ttft_ms: 2000, tpot_ms: 200}}
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


def plenty(offer: Offer) -> StepLog:  # noqa: ARG001
    return StepLog((0.0,), (inf,))


def requests_per_s(minute: int) -> float:
    """A wave of two hours, from 4 to 28."""
    return 16 - 12 * cos(2 * pi * minute / 120)


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
        session = Session(PostgresLibraries(database), PostgresPlans(database), lambda *_: None, lambda: 0.0)
        logs = [OfferLog(offer, StepLog((0.0,), (offer.usd_per_hour,)), stock(offer)) for offer in self.quotes.offers]
        cloud = LogCloud("aws", logs, START, seed=1)
        self.plane = ControlPlane(
            database,
            lambda log: WatchedPlanner(
                session, self._world, LiveMarket(database), MeteredDemand(database),
                PostgresInstances(database).drained_since, log.planned,
            ),
            {"aws": cloud},
            NodeManner((STARTUP_S, STARTUP_S), {(APP, "whole"): DRAIN_S}, seed=1),
            START,
        )  # fmt: skip
        self.cloud = cloud

    @property
    def world(self) -> World:
        return self._world

    def run(self, steps: int, *, heard: bool = True) -> "Recording":
        """So many times ten minutes: what clouds and gateways say comes first, as it would have by then."""
        if not self._minute:
            self._minute = -60
            self._report(0)
        for _ in range(steps):
            self._refresh()
            if self._minute == 0 and not self.plane.log.plans:
                self.plane.hold("chat", self.spec, str(self.folder))
            for minute in range(10):
                for _ in self.plane.run_until(60.0 * (self._minute + 1)):
                    pass
                self._report(self._minute + 1, heard=heard or minute < 0)
        return self

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

    def _report(self, until_minute: int, *, heard: bool = True) -> None:
        reports = []
        for minute in range(self._minute, until_minute):
            n = round(60 * requests_per_s(max(minute, 0)))
            line = OfferedLine("chat", APP, "chat", "", n, 0, 2048 * n, 28 * n, n, 2048 * n, 28 * n)
            at = START + timedelta(minutes=minute)
            reports.append(("gateway", Offered("1", int(at.timestamp()), 60, 1, (line,))))
        if heard:
            PostgresDemand(self.database).record(reports, START + timedelta(minutes=until_minute))
        self._minute = until_minute
