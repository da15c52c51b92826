"""Planning from a spec file or from a recorded snapshot: the same steps either way."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from control.allocator import solve
from control.checker import check
from control.explain import Explanation, explain, reasons
from control.explain.certificate import Certificate, certificates, corrections, margins, unkept
from control.offers.reached import no_way
from control.planning.cost_models import how_to_measure
from control.planning.graph_sources import uncertified
from control.planning.member_rents import with_member_rents
from control.planning.promise import Attainment, AttainmentOf, Promise, promised
from control.planning.recipe import Recipe
from control.planning.recording import FORMAT, Recording, RecordingError, versioned
from control.planning.report import Basis, PlanReport, unmet_share
from control.planning.solves import RememberedSolves
from control.planning.step_time_bases import step_time_bases
from control.planning.templates import Templates, obtain, stored_template
from control.planning.world import World
from policies.baselines import MEDLEY, Method, baseline, baselines_of
from policies.churn import Payback, guard
from templates_lib.ports.library_store import LibraryStore
from templates_lib.ports.plan_store import Baseline, KeptPlan, PlanStore
from templates_lib.ports.solve import Solve
from templates_lib.ports.source import Progress
from templates_lib.values.instance import Instance
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan, Reason
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Unit

GUARDRAILS = frozenset({"budget", "replicas", "spot_share", "zone_share", "survive"})
"""Rules of the check that a fleet's owner sets."""


def plan_medley(snapshot: Snapshot, library: Library, solve: Solve) -> Plan:
    """The planner's own."""
    return solve(snapshot, library)


def method_of(strategy: str) -> Method:
    """`strategy`: one of `strategies()`. Raises KeyError."""
    return plan_medley if strategy == MEDLEY else baseline(strategy)


@dataclass(frozen=True, slots=True, eq=False)
class PlanningSession:
    """Ports of planning: where libraries and plans are stored, where progress is reported, a monotonic clock in
    seconds."""

    store: LibraryStore
    plans: PlanStore
    progress: Progress
    clock: Callable[[], float]
    method: Method = plan_medley
    """Method that makes its plans: the planner, or what is compared with it (simulations run fleets on baselines,
    too)."""
    attainment: AttainmentOf | None = None
    """What simulates plans whose models promise a percentile (`slo.keep`)."""

    def record(self, world: World, now: str, instances: tuple[Instance, ...] = ()) -> tuple[Recording, Templates]:
        """The snapshot of `world` at `now` (ISO 8601, UTC), with the instances that run, and its templates."""
        recipe = world.sources
        templates = obtain(recipe, self.store, self.progress, protected={i.template_id for i in instances})
        library = templates.library
        snapshot = versioned(world.snapshot(now, library, instances))
        advice = how_to_measure(world.recipe)
        notes = (*world.quotes.notes, *world.notes, *([advice] if advice else ()))
        return Recording(FORMAT, world.name, snapshot, recipe, notes), templates

    def replay(self, recording: Recording) -> tuple[Recording, Templates]:
        """The recording with what a hand-made one left open, and its templates.

        Raises RecordingError when the library that its recipe gives here is not the one it was recorded with.
        """
        if recording.recipe is None:
            raise RecordingError(f"{recording.name}: has no recipe for its templates: name their file with --templates")
        snapshot = recording.snapshot
        templates = obtain(
            recording.recipe, self.store, self.progress, protected={i.template_id for i in snapshot.instances}
        )
        library = templates.library
        if snapshot.library_version not in ("", library.version):
            raise RecordingError(
                f"{recording.name}: was recorded with library {snapshot.library_version} (cost model "
                f"{snapshot.cost_model_fingerprint}), but this release builds {library.version} (cost model "
                f"{library.cost_model_fingerprint}) from the same recipe: replay it with the release that recorded it, "
                "or record it again"
            )
        filled = replace(
            snapshot, library_version=library.version, cost_model_fingerprint=library.cost_model_fingerprint
        )
        return replace(recording, snapshot=versioned(filled)), templates

    def plan(
        self,
        recording: Recording,
        templates: Templates,
        *,
        baselines: bool,
        payback: Payback | None = None,
        advise: Callable[[Plan, Snapshot], tuple[Reason, ...]] = lambda *_: (),
    ) -> PlanReport:
        """The plan, which is kept, with those of the baselines on the same snapshot and library. `payback`: what moves
        of the fleet that runs have to earn; None: the cheapest plan, whatever it moves. `advise`: further reasons of a
        plan, which stand before the others."""
        library, timed = templates.library, self._solves()
        attain = self.attain(recording.recipe, templates)
        promise = _planned(recording.snapshot, library, timed, self.method, attain)
        plan, snapshot = promise.plan, promise.snapshot
        if payback is not None:
            still = guard(snapshot, library, plan, timed, payback)
            plan = still if attain is None or _keeps(attain, still, snapshot, promise) else plan
        plan, certified = templates.placed(with_member_rents(plan, snapshot, library))
        plan = replace(plan, attainment=dict(promise.attainment if attain is None else attain(plan, snapshot)))
        # Without waiting is the rule, and docs/plans.md says it.
        waiting = certificates(capacity for capacity in certified if capacity.queueing)
        said = (*(each.reason for each in waiting), *unkept(plan), *corrections(snapshot), *margins(plan, snapshot))
        first = (*uncertified(plan, snapshot, recording.recipe), *advise(plan, snapshot))
        why, bases = (*first, *reasons(plan, snapshot), *said), step_time_bases(plan, recording.recipe)
        plan = replace(plan, reasons=why, step_times=bases)
        self.plans.save(recording.name, plan, snapshot)
        others, broken = self._compare(plan, snapshot, library, attain, timed) if baselines else ({}, {})
        others = {name: with_member_rents(each, snapshot, library) for name, each in others.items()}
        per_unit = recording.recipe.tokens_per_unit if recording.recipe else {}
        basis = _basis(plan, snapshot, templates.cost_model, recording.notes)
        return PlanReport(recording.name, snapshot, plan, others, basis, broken, per_unit)

    def attain(self, recipe: Recipe | None, templates: Templates) -> Attainment | None:
        """Return what simulates plans of the recipe; None where no model of it promises anything."""
        if self.attainment is None or recipe is None:
            return None
        attain = self.attainment(recipe, templates)
        return attain if attain.classes else None

    def found(self, snapshot: Snapshot, library: Library, attain: Attainment | None) -> Promise:
        """The plan alone, which is neither kept nor explained nor compared with anything. `attain`: as `attain` makes
        it for the snapshot's recipe."""
        return _planned(snapshot, library, self._solves(), self.method, attain)

    def compare(self, plan: Plan, snapshot: Snapshot, templates: Templates, recipe: Recipe) -> None:
        """Keep what baselines would cost in the place of `plan`."""
        self._compare(plan, snapshot, templates.library, self.attain(recipe, templates), self._solves())

    def _solves(self) -> RememberedSolves:
        return RememberedSolves(partial(solve, clock=self.clock))

    def _compare(
        self, plan: Plan, snapshot: Snapshot, library: Library, attain: Attainment | None, timed: Solve
    ) -> tuple[dict[str, Plan], dict[str, tuple[str, ...]]]:
        """(baseline → its plan, baseline → the guardrails that it breaks); what `plan` is compared with is kept. Where
        a percentile is promised, baselines are certified for it as `plan` is."""
        if attain is not None:  # the caps of `plan` are no place for others to begin from
            snapshot = versioned(replace(snapshot, settings=snapshot.settings.capped({})))
        promises = {name: _planned(snapshot, library, timed, baseline(name), attain) for name in baselines_of(library)}
        others = {name: replace(each.plan, attainment=dict(each.attainment)) for name, each in promises.items()}
        broken = {name: _broken_guardrails(each.plan, each.snapshot) for name, each in promises.items()}
        compared = [
            Baseline(name, other.usd_per_hour, unmet_share(other, snapshot), broken[name])
            for name, other in others.items()
        ]
        self.plans.compare(plan.id, compared)
        return others, broken

    def kept_report(self, kept: KeptPlan) -> PlanReport:
        """A plan that was made before. The database does not know how long an invocation is, so tokens may be left out.

        Raises LookupError when the library of the plan is gone.
        """
        plan = self.plans.load(kept.id)
        snapshot = self.plans.snapshot(plan.snapshot_version)
        info = self.store.show(plan.library_version)
        per_unit = {c.id: 1.0 for c in info.classes if c.unit is not Unit.INVOCATION}
        basis = _basis(plan, snapshot, f"cost model {info.cost_model_fingerprint[:12]}", ())
        return PlanReport(kept.name, snapshot, plan, {}, basis, {}, per_unit)

    def certificates(self, plan: Plan) -> tuple[Certificate, ...]:
        """Return what the templates of `plan` were certified for. Raises LookupError when its library is gone."""
        names = sorted({instance.template_id for instance in plan.instances})
        return certificates(stored_template(self.store, name, plan.library_version).capacity for name in names)

    def explain(self, plan: Plan, snapshot: Snapshot, library: Library) -> Explanation:
        """Why `plan`, made on `snapshot` with templates of `library`, is as it is."""
        return explain(plan, snapshot, library, solve, no_way(snapshot))


def _planned(snapshot: Snapshot, library: Library, timed: Solve, method: Method, attain: Attainment | None) -> Promise:
    """The method's plan on the snapshot; where a percentile is promised, under caps that keep it."""
    if attain is None:
        return Promise(method(snapshot, library, timed), snapshot, {})
    return promised(snapshot, lambda under: method(under, library, timed), attain)


def _keeps(attain: Attainment, plan: Plan, snapshot: Snapshot, promise: Promise) -> bool:
    """Whether a plan that moves less keeps its promises as well."""
    return Promise(plan, snapshot, attain(plan, snapshot)).is_kept or not promise.is_kept


def _broken_guardrails(plan: Plan, snapshot: Snapshot) -> tuple[str, ...]:
    """The baselines are not told of guardrails, so what they break is found afterwards."""
    rules = [violation.rule for violation in check(plan, snapshot)]
    return tuple(dict.fromkeys(rule for rule in rules if rule in GUARDRAILS))


def _basis(plan: Plan, snapshot: Snapshot, cost_model: str, notes: tuple[str, ...]) -> Basis:
    used = {o.offer for o in plan.offers}
    offers = [o for o in snapshot.offers if o.key in used]
    dates = sorted(o.observed_at for o in offers if o.observed_at)
    return Basis(
        cost_model=cost_model,
        price_sources=tuple(sorted({o.source for o in offers})),
        prices_observed=(dates[0], dates[-1]) if dates else ("", ""),
        derived_offers=tuple(sorted(o.key for o in offers if o.derived)),
        notes=notes,
        step_times=plan.step_times,
    )
