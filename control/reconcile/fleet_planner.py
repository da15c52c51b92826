"""The slow loop's work: a plan for one fleet as it runs now, on the market as it is now."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from control.cost.spending_limit import SpendingLimit
from control.diff.limits import Disruption
from control.fleet_file.own_model import OwnModel
from control.lifecycle.fleet import FleetRecord
from control.planning.graph_sources import promised_classes
from control.planning.recording import Recording, versioned
from control.planning.report import PlanReport
from control.planning.session import PlanningSession
from control.planning.templates import Templates
from control.planning.within_budget import within_budget
from control.planning.world import World
from control.reconcile.fleet_world import files_of, world_of_record
from control.reconcile.market import DemandSource, MarketSource
from control.reconcile.promises_kept import Corrections, NoCorrections
from policies.churn import LeftOut, Payback
from policies.correction import Correction
from policies.degradation import TakeRung
from templates_lib.values.clouds import cloud_kind
from templates_lib.values.instance import LEAVING, Instance
from templates_lib.values.offer import Offer
from templates_lib.values.plan import Plan, Reason
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool


def as_it_is(recording: Recording) -> Recording:
    """Return the recording unchanged: nothing is supposed."""
    return recording


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    record: FleetRecord
    """Record of the fleet that it was planned for."""
    world: World
    snapshot: Snapshot
    plan: Plan
    report: PlanReport
    taken: TakeRung
    """Rung that its budgets made it take, and why."""
    corrections: Mapping[str, tuple[float, Correction]] = field(default_factory=dict)
    """Corrections that are others from this plan on, by work class, with the factor before."""

    def uses_up(self, offer: Offer) -> bool:
        """Tell whether the plan takes all of an offer that it might count on."""
        sold = next((o for o in self.snapshot.offers if o.key == offer.key), None)
        if sold is None:
            return False
        return self.plan.nodes()[offer.key] >= self.snapshot.held_nodes()[offer.key] + self.snapshot.more_nodes(sold)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A fleet's world, and what it was read from."""

    record: FleetRecord
    own: tuple[OwnModel, ...]
    files: Mapping[Path, tuple[int, int] | None]
    """Files that the spec names, with time of change, ns, and size; None: not there."""
    world: World


class FleetPlanner:
    """Planner of fleets on record. Thread-safe, but for one fleet at a time."""

    def __init__(
        self,
        session: PlanningSession,
        prepare: Callable[[World], World],
        market: MarketSource,
        demand: DemandSource,
        drained: Callable[[str, datetime], Sequence[datetime]],
        own: Callable[[], tuple[OwnModel, ...]] = tuple,
        spending_limit: Callable[[FleetRecord, datetime], SpendingLimit] = lambda _, __: SpendingLimit(),
        corrections: Corrections | None = None,
        overridden: Callable[[str, datetime], tuple[Reason, ...]] = lambda _, __: (),
    ) -> None:
        """`prepare` adds to a world, for every plan anew, what is known beside its spec, such as measured profiles.
        `drained`: when ready instances of a fleet were told to drain, since a time. `own`: registered models.
        `spending_limit`: what budgets leave to a fleet. `corrections`: what measured answers say of certificates.
        `overridden`: says of a fleet what it is planned for instead of the forecast."""
        self._session = session
        self._prepare = prepare
        self.market = market
        self._demand = demand
        self._own = own
        self._spending_limit = spending_limit
        self._drained = drained
        self._corrections = corrections or NoCorrections()
        self._overridden = overridden
        self._worlds: dict[str, _Read] = {}
        self._left_out: dict[str, LeftOut] = {}
        """By fleet. What is lost with the process only puts moves off that save money."""

    def world(self, record: FleetRecord) -> World:
        """Return the world as its spec, the files that this names and the registered models are now. Raises SpecError,
        OfferError."""
        own, known = self._own(), self._worlds.get(record.name)
        if known is None or (known.record, known.own) != (record, own) or known.files != _seen(known.files):
            files = _seen(files_of(record))  # before they are read: what changes meanwhile is read again
            known = _Read(record, own, files, world_of_record(record, own))
            self._worlds[record.name] = known
        return self._prepare(known.world)

    def solve(
        self,
        record: FleetRecord,
        instances: Iterable[Instance],
        now: datetime,
        *,
        in_force: str = "",
        supposed: Callable[[Recording], Recording] = as_it_is,
        baselines: bool = False,
    ) -> Solved:
        """Plan a fleet. `instances`: of all fleets, those on their way out included: what others hold is no supply.
        `in_force`: id of the plan that it runs by, from whose utilisation caps the search for the next one begins.
        `supposed`: how things might be instead.

        Raises what `world` and planning raise: ValueError and LookupError for a fleet that cannot be planned."""
        world, there = self.world(record), tuple(instances)
        own = tuple(i for i in there if i.fleet == record.name and i.state not in LEAVING)
        held = _held(i for i in there if i.fleet != record.name or i.state in LEAVING)
        quotes = self.market.quotes(world, now)
        quotes = replace(
            quotes,
            offers=tuple(_beside(offer, held + _held(own)) for offer in quotes.offers),
            pools=tuple(_without(pool, held) for pool in quotes.pools),
        )
        world = replace(world, quotes=quotes, demand=self._demand.demand(record, world, now))
        longest = timedelta(minutes=2 * world.fleet.reconcile.replan_minutes)
        left_out = self._left_out.get(record.name, LeftOut())
        payback = self._payback(world, record.name, len(own), now)
        if payback is not None:
            payback = replace(
                payback,
                left_out_usd=left_out.usd_by(now, longest),
                is_swapping=left_out.is_swapping(now),
                doubtful=quotes.doubtful,
            )

        held_to, promised = self._in_force(in_force), _promised(world)
        begun = Settings() if held_to is None else held_to[1].settings.of_classes(promised)
        before, due = self._corrections.in_force(record.name), {}
        if held_to is not None and supposed is as_it_is:
            due = self._corrections.due(record.name, *held_to, own, now)
        factors = {name: each.factor for name, each in {**before, **due}.items() if each.is_any}
        # An override may be of a model that the spec has no longer.
        instead = tuple(why for why in self._overridden(record.name, now) if why.subject in world.fleet.app_demand)

        def planned(world: World) -> tuple[World, Snapshot, PlanReport]:
            recording, templates = self._session.record(world, now.isoformat(timespec="seconds"), own)
            own_factors = {name: factor for name, factor in factors.items() if name in promised}
            recording = supposed(_begun_from(recording, begun, own_factors))
            report = self._session.plan(
                recording, templates, baselines=baselines, payback=payback, advise=lambda *_: instead
            )
            return world, report.snapshot, report

        limit = self._spending_limit(record, now)
        within = within_budget(world, limit.allowed, limit.in_force, planned, lambda solved: solved[2].plan)
        world, snapshot, report = within.solved
        if supposed is as_it_is:
            self._left_out[record.name] = left_out.after(report.plan, now, longest)
        changed = {name: (before[name].factor if name in before else 1.0, each) for name, each in due.items()}
        return Solved(record, world, snapshot, report.plan, report, within.taken, changed)

    def compare(self, solved: Solved) -> None:
        """Keep what baselines would cost in the place of its plan. Raises LookupError when its library is gone."""
        plan, snapshot = solved.plan, solved.snapshot
        library = self._session.store.load(plan.library_version, {i.template_id for i in snapshot.instances})
        templates = Templates("", library, self._session.store)
        self._session.compare(plan, snapshot, templates, solved.world.sources)

    def _in_force(self, plan: str) -> tuple[Plan, Snapshot] | None:
        """Return the plan in force and its snapshot; None: there is none, or it was thrown away."""
        if not plan:
            return None
        try:
            found = self._session.plans.load(plan)
            return found, self._session.plans.snapshot(found.snapshot_version)
        except LookupError:
            return None

    def _payback(self, world: World, fleet: str, instances: int, now: datetime) -> Payback | None:
        given = world.fleet.reconcile
        if given.payback_minutes is None:
            return None
        allowed = Disruption(max_share=given.payback_share).allowance(instances)
        if allowed is None:
            return Payback(given.payback_minutes)
        moved = len(self._drained(fleet, now - timedelta(hours=1)))
        return Payback(given.payback_minutes, moves_left=max(allowed - moved, 0))


def _promised(world: World) -> frozenset[str]:
    """Return the work classes that are promised something now."""
    text = (s.class_id(phase) for s in world.recipe.served if s.slo.queueing for phase in s.phases)
    return frozenset(text) | promised_classes(world.sources)


def _begun_from(recording: Recording, before: Settings, corrections: Mapping[str, float]) -> Recording:
    """The same, planned from the caps of `before` on."""
    if not before.utilisation_caps and not corrections:
        return recording
    snapshot = recording.snapshot
    capped = snapshot.settings.capped(before.utilisation_caps, before.template_caps)
    begun = replace(capped, corrections=corrections)
    return replace(recording, snapshot=versioned(replace(snapshot, settings=begun)))


def _seen(files: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    found: dict[Path, tuple[int, int] | None] = {}
    for file in files:
        try:
            state = file.stat()
        except OSError:
            found[file] = None
        else:
            found[file] = state.st_mtime_ns, state.st_size
    return found


def _held(instances: Iterable[Instance]) -> Counter[str]:
    return Counter(node.offer for instance in instances for node in instance.nodes)


def _beside(offer: Offer, held: Mapping[str, int]) -> Offer:
    if not cloud_kind(offer.cloud).is_stock or offer.available_count is None:
        return offer
    return replace(offer, available_count=max(0, offer.available_count - held.get(offer.key, 0)))


def _without(pool: SupplyPool, held: Mapping[str, int]) -> SupplyPool:
    """Return the pool without what other fleets hold: it counts against the account's limits too."""
    taken = pool.taken(held)
    return replace(pool, limit=max(0.0, pool.limit - taken)) if taken else pool
