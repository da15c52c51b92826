"""A recorded span once more: the real loop from the state that it began in, over the recorded market and demand."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from pathlib import Path

from control.cloud.node import NodeRequest
from control.db.database import Database, open_database
from control.db.demand_overrides import Override
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.past import PastInstance, PastNode, PastOverride, PostgresPast
from control.db.past_copy import copy_demand, copy_instances, steps_before
from control.db.plans import PostgresPlans
from control.executor.nodes import INSTANCE_TAG, OWNER_TAG
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from control.market.answers import note
from control.planning.session import PlanningSession, method_of
from control.planning.world import World
from control.reconcile.metered_demand import HISTORY, MeteredDemand
from control.simulator.attainment import SimulatedAttainment
from control.simulator.fleet_run import Around, without_weights
from control.simulator.log_cloud import LogCloud
from control.simulator.plane import OWNER, ControlPlane
from control.simulator.plane_log import PlaneLog
from control.simulator.replay.course import Course, Floats, Life, build_course
from control.simulator.replay.recorded_course import (
    REFUSALS,
    drains_s,
    held_of,
    moves_of,
    offered,
    startup_s,
    wanted_then,
)
from control.simulator.replay.recorded_market import RecordedMarket, ReplayedMarket
from control.simulator.replay.span import Span
from control.simulator.simulated_timings import SimulatedTimings
from control.simulator.watched_planner import WatchedPlanner

_REPLAYED = "replay"


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """The fleet under its other policy."""

    world: World
    """Its name is the recorded fleet's."""
    spec: str
    folder: str
    """Where relative paths of the spec begin; empty: it may name none."""
    strategy: str


@dataclass(frozen=True, slots=True, eq=False)
class Rerun:
    course: Course
    plans: tuple[tuple[float, float], ...]
    """(seconds since the span began, $/h) of every plan that was made."""
    troubles: tuple[str, ...]
    """Why the fleet could not be planned or run at times."""
    notes: tuple[str, ...]
    """What was assumed."""


@dataclass(frozen=True, slots=True)
class PastOverrides:
    """What operators said, as of any moment of a span."""

    all: tuple[PastOverride, ...]

    def working(self, fleet: str, now: datetime) -> Mapping[str, Override]:  # noqa: ARG002 - of one
        return {
            past.said.model: past.said
            for past in self.all
            if past.said.made_at <= now < past.said.expires_at and (past.ended_at is None or past.ended_at > now)
        }


def rerun(
    database: Database,
    span: Span,
    subject: Subject,
    market: RecordedMarket,
    edges_s: Floats,
    around: Around,
    seed: int,
) -> Rerun:
    """`database`: the recorded one, of which nothing but its libraries is written.

    Raises ValueError and LookupError for a fleet that cannot be planned at all, DatabaseUnavailableError.
    """
    with tempfile.TemporaryDirectory(prefix="medley-", dir=around.folder) as name:
        home = Path(name)
        with open_database(None, home / "postgres") as own:
            world = without_weights(subject.world, home)
            run = _Run(database, own, span, replace(subject, world=world), market, around, seed)
            run.go()
            return run.result(edges_s)


class _Run:
    def __init__(
        self,
        recorded: Database,
        own: Database,
        span: Span,
        subject: Subject,
        market: RecordedMarket,
        around: Around,
        seed: int,
    ) -> None:
        world = subject.world
        self._span, self._subject, self._market, self._around = span, subject, market, around
        self._offers = {log.offer.key: log.offer for log in market.log.offers}
        self._clouds = {
            name: LogCloud(name, market.log.offers, span.since, seed, market.log.shared) for name in market.log.clouds
        }
        self._wanted = wanted_then(PostgresPlans(recorded), span.instances)
        took, settings = startup_s(span), world.fleet.settings
        self._startup_s = took or (60 * settings.startup_minutes,) * 2
        install_s = {} if took else {engine: 60 * more for engine, more in settings.install_minutes.items()}
        copy_demand(recorded, own, span.fleet, span.begin - HISTORY, span.until)
        method = method_of(subject.strategy)
        session = PlanningSession(
            around.libraries, PostgresPlans(own), around.progress, around.clock, method, SimulatedAttainment
        )
        planner = ReplayedMarket(own, market, self._clouds, span.since)
        demand = MeteredDemand(own, PastOverrides(span.overrides))
        self._plane = ControlPlane(
            own,
            lambda log: WatchedPlanner(
                session, world, planner, demand, PostgresInstances(own).drained_since, log.planned
            ),
            self._clouds,
            SimulatedTimings(self._startup_s, drains_s(span, self._wanted), seed, install_s),
            span.since,
            span.seconds(span.begin),
        )
        self._log: PlaneLog = self._plane.log
        self._own, self._left_out = own, 0
        self._adopt(recorded)

    def go(self) -> None:
        self._plane.run_to_end(self._span.fleet, self._span.length_s, self._around.progress, _REPLAYED)

    def result(self, edges_s: Floats) -> Rerun:
        log, length_s = self._log, self._span.length_s
        past = PostgresPast(self._own)
        calls = past.calls(self._span.since, self._span.until)
        nodes = past.nodes(self._span.begin, self._span.until)
        plans = tuple((plan.at_s, plan.usd_per_hour) for plan in log.plans)
        found = build_course(
            edges_s,
            # By what the loop itself stamped on them, as what happened is: prices count from the plan that saw them.
            [held for node in nodes if node.charged for held in held_of(node, self._span)],
            [(max(at_s, 0.0), usd) for at_s, usd in plans],
            offered(self._span, self._subject.world),
            [route for served in self._subject.world.recipe.served for route in served.routes()],
            list(self._lives()),
            moves_of(
                ((at_s, step) for at_s, step in log.steps if at_s >= 0),
                [self._span.seconds(call.at) for call in calls if call.outcome in REFUSALS],
            ),
            anywhere=self._subject.world.fleet.sources.by_region,
        )
        troubles = tuple(dict.fromkeys(text for at_s, text in log.troubles if text and at_s < length_s))
        return Rerun(found, plans, troubles, (*self._market.notes, *self._assumed()))

    def _adopt(self, recorded: Database) -> None:
        """What ran when the replay begins, and what was known and wanted then."""
        span, begin = self._span, self._span.begin
        for call in span.calls:
            if call.at < begin and call.offer in self._offers:
                note(self._own, self._offers[call.offer], call.outcome, call.reason, call.at)
        there = [(past, self._nodes_of(past)) for past in span.instances if _lives(past, begin)]
        taken = [(past, nodes) for past, nodes in there if past.id in self._wanted and self._rent(past, nodes)]
        self._left_out = len(there) - len(taken)
        plans = {past.plan_id for past, _ in taken} | ({span.held[1]} if span.held else set())
        kept = self._copy_plans(recorded, plans)
        copy_instances(self._own, [past for past, _ in taken], [node for _, nodes in taken for node in nodes], begin)
        for past, _ in taken:
            self._log.wanted[past.id] = self._wanted[past.id]
            for step in steps_before(past, begin):
                self._log.on_transition(span.fleet, step)
        self._plane.hold(span.fleet, self._subject.spec, self._subject.folder)
        if span.held and span.held[1] in kept:
            fleets = PostgresFleets(self._own)
            why = "the fleet was held to it when the replay begins"
            fleets.accept(fleets.target(span.fleet), span.held[1], _REPLAYED, why, span.held[0])

    def _nodes_of(self, past: PastInstance) -> list[PastNode]:
        """Nodes that it had when the replay begins."""
        begin = self._span.begin
        return [
            node
            for node in self._span.nodes
            if node.instance == past.id
            and node.created_at is not None
            and node.created_at < begin
            and (node.gone_at is None or node.gone_at >= begin)
        ]

    def _rent(self, past: PastInstance, nodes: list[PastNode]) -> bool:
        """Whether its nodes are of offers that this replay has, and are there now."""
        if not all(node.offer in self._offers for node in nodes):
            return False
        for node in nodes:
            offer, tags = self._offers[node.offer], {OWNER_TAG: OWNER, INSTANCE_TAG: past.id}
            place = offer.region, offer.zone, offer.instance_type, offer.market
            disk_usd = node.disk_usd_per_hour
            request = NodeRequest(node.name, *place, tags, ("true",), disk_usd_per_hour=disk_usd)
            self._clouds[offer.cloud].adopt(request, self._span.seconds(node.requested_at))
        return True

    def _copy_plans(self, recorded: Database, ids: Iterable[str]) -> set[str]:
        """Copy the plans that are still on record; their ids."""
        source, target, kept = PostgresPlans(recorded), PostgresPlans(self._own), set()
        for plan_id in sorted(ids):
            with suppress(LookupError):
                plan = source.load(plan_id)
                target.save(self._span.fleet, plan, source.snapshot(plan.snapshot_version))
                kept.add(plan_id)
        return kept

    def _lives(self) -> Iterator[Life]:
        steps: dict[str, list[tuple[float, PastTransition]]] = {}
        for at_s, step in self._log.steps:
            steps.setdefault(step.instance_id, []).append((at_s, step))
        for name, own in steps.items():
            what = self._log.wanted.get(name)
            ends = [at_s for at_s, _ in own[1:]] + [inf]
            for (at_s, step), until_s in zip(own, ends, strict=True):
                if what is not None and step.to_state is InstanceState.READY:
                    yield Life(what.zone, what.units_per_s, at_s, until_s)

    def _assumed(self) -> Iterator[str]:
        least, most = (seconds / 60 for seconds in self._startup_s)
        took = f"{least:.3g} to {most:.3g} minutes" if least != most else f"{least:.3g} minutes"
        yield f"Instances take {took} to serve, as those on record did (or as the spec says, if there are none)."
        if self._left_out:
            yield (
                f"{self._left_out} instances that ran when the span began are of offers that this replay may not rent: "
                "they are not there from the start."
            )
        if any(load.seconds > 60 for load in self._span.load):
            yield "Demand older than two days is known by the hour only."
        yield "Budgets, and what other fleets asked for, are not replayed."


def _lives(past: PastInstance, before: datetime) -> bool:
    steps = steps_before(past, before)
    return bool(steps) and steps[-1].to_state is not InstanceState.TERMINATED
