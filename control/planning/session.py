"""Planning from a spec file or from a recorded snapshot: the same steps either way."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from control.allocator import solve
from control.checker import check
from control.explain import Explanation, explain, reasons
from control.explain.certificate import Certificate, certificates
from control.planning.cost_models import how_to_measure
from control.planning.recipe import Recipe
from control.planning.recording import FORMAT, Recording, RecordingError, versioned
from control.planning.report import Basis, PlanReport, unmet_share
from control.planning.templates import Templates, obtain, stored_template
from control.planning.world import World
from policies.baselines import BASELINES, MEDLEY, Method, baseline
from policies.churn import Payback, guard
from templates_lib.ports.library_store import LibraryStore
from templates_lib.ports.plan_store import Baseline, KeptPlan, PlanStore
from templates_lib.ports.solve import Solve
from templates_lib.ports.source import Progress
from templates_lib.values.instance import Instance
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
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

    def record(self, world: World, now: str, instances: tuple[Instance, ...] = ()) -> tuple[Recording, Templates]:
        """The snapshot of `world` at `now` (ISO 8601, UTC), with the instances that run, and its templates."""
        recipe = Recipe((world.recipe,))
        templates = obtain(recipe, self.store, self.progress, protected={i.template_id for i in instances})
        library = templates.library
        snapshot = versioned(world.snapshot(now, library.version, library.cost_model_fingerprint, instances))
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
        self, recording: Recording, templates: Templates, *, baselines: bool, payback: Payback | None = None
    ) -> PlanReport:
        """The plan, which is kept, with those of the baselines on the same snapshot and library. `payback`: what moves
        of the fleet that runs have to earn; None: the cheapest plan, whatever it moves."""
        snapshot, library = recording.snapshot, templates.library
        timed = partial(solve, clock=self.clock)
        plan = self.method(snapshot, library, timed)
        if payback is not None:
            plan = guard(snapshot, library, plan, timed, payback)
        plan, certified = templates.placed(plan)
        # Without waiting is the rule, and docs/plans.md says it.
        waiting = certificates(capacity for capacity in certified if capacity.queueing)
        plan = replace(plan, reasons=(*reasons(plan, snapshot), *(each.reason for each in waiting)))
        self.plans.save(recording.name, plan, snapshot)
        others, broken = self.compare(plan, snapshot, library) if baselines else ({}, {})
        per_unit = recording.recipe.tokens_per_unit if recording.recipe else {}
        basis = _basis(plan, snapshot, templates.cost_model, recording.notes)
        return PlanReport(recording.name, snapshot, plan, others, basis, broken, per_unit)

    def compare(
        self, plan: Plan, snapshot: Snapshot, library: Library
    ) -> tuple[dict[str, Plan], dict[str, tuple[str, ...]]]:
        """(baseline → its plan, baseline → the guardrails that it breaks); what `plan` is compared with is kept."""
        timed = partial(solve, clock=self.clock)
        others = {name: baseline(name)(snapshot, library, timed) for name in BASELINES}
        broken = {name: _broken_guardrails(other, snapshot) for name, other in others.items()}
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
        return explain(plan, snapshot, library, solve)


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
    )
