"""Costs of a fleet under other objectives of its models: planned again, with the same demand, prices and supply.

Templates are made again of the model whose objective changes, and of no other. A plan under other objectives begins
from the utilisation caps of the plan in force, and what the simulator has seen of a model is not simulated again.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from control.planning.objectives import Axis, Objective, models_of, now_of, own_of, parts_of, under, unpromised
from control.planning.promise import Attainment, Promise
from control.planning.prompt_cuts import cut_at, cut_snapshot
from control.planning.recipe import PipelineRecipe, Recipe
from control.planning.recording import versioned
from control.planning.report import SERVED, unmet_share
from control.planning.session import PlanningSession
from control.planning.templates import Templates, UnservableError, obtain
from templates_lib.sources.library_union import in_place_of
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

CENT = 0.01
"""$/h: what saves less is not worth a word."""

Said = Callable[["Objective", "Point", int, int], None]
"""Hears of every plan: whose, what it costs, how many were made so far, of how many."""


@dataclass(frozen=True, slots=True)
class Point:
    """The fleet under one value of an objective."""

    value: float
    """Milliseconds, or percent."""
    usd_per_hour: float | None
    """Rent and traffic of the whole fleet; None: no template keeps the objective."""
    unmet_share: float = 0.0
    """Share of all requests that the plan does not serve, 0 to 1."""
    is_kept: bool = True
    """Whether all that is promised was kept in simulation."""
    problem: str = ""
    """Reason why there is no plan."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What the fleet costs against one objective of one of its models."""

    model: str
    axis: Axis
    unit: str
    now: float
    """The objective in force."""
    points: tuple[Point, ...]
    """The tightest first, that in force included."""


@dataclass(frozen=True, slots=True)
class Easier:
    """An easier objective that saves money."""

    model: str
    axis: Axis
    unit: str
    now: float
    then: float
    usd_per_hour: float
    """Saved by the whole fleet."""
    share: float
    """Share of its cost that is saved."""

    @property
    def text(self) -> str:
        change = Objective(self.model, self.axis).change(self.now, self.then)
        return f"{change} saves {self.usd_per_hour:,.2f} $/h ({self.share:.1%})"


@dataclass(frozen=True, slots=True, eq=False)
class ObjectiveCosts:
    session: PlanningSession
    recipe: Recipe
    snapshot: Snapshot
    """Of the plan in force, with its utilisation caps, if it has any."""
    library: Library
    """Templates for the objectives in force."""
    _attain: list[Attainment] = field(default_factory=list)
    """The simulator that was asked last: the next one knows what it has seen."""

    def planned(self, values: Mapping[Objective, float]) -> Promise:
        """The fleet under other objectives. Nothing is kept of it.

        Raises UnservableError where no template keeps them, ValueError for a model that is not served."""
        attain, templates, snapshot = self._under(*under(self.recipe, values))
        return self.session.found(snapshot, templates.library, attain)

    def cut(self, model: str, max_prompt_tokens: int) -> Promise:
        """The fleet with the model's prompts cut there (0: not at all), each band with the objectives of the whole: as
        a spec that says so is planned, from no utilisation caps on. Nothing is kept of it. Raises as `planned`."""
        before = parts_of(self.recipe, model)
        recipe, app = cut_at(self.recipe, model, max_prompt_tokens)
        gone = [served.class_id(phase) for served in before for phase in served.phases]
        attain, templates = self._made(recipe, own_of(recipe, {each.name for each in app.components}), gone)
        snapshot = cut_snapshot(self.snapshot, recipe, templates.library, before, app)
        return self.session.found(versioned(snapshot), templates.library, attain)

    def unpromised(self, models: Iterable[str]) -> Promise:
        """The fleet if these models promised nothing to requests that wait (`keep: throughput`). Nothing is kept of it.

        Raises UnservableError."""
        attain, templates, snapshot = self._under(*unpromised(self.recipe, models))
        return self.session.found(snapshot, templates.library, attain)

    def curve(self, plan: Plan, objective: Objective, values: Iterable[float] = (), said: Said | None = None) -> Curve:
        """What the fleet costs at these values, by default at some around that in force. `plan`: that in force.

        Where a plan for a tighter objective costs less than the one that was found for an easier one, and is seen to
        keep it, it is taken: the search for plans has tolerances. Raises ValueError.
        """
        axis, now = objective.axis, now_of(self.recipe, objective)
        asked = axis.checked(values) or axis.around(now)
        tightest_first = sorted({*asked, now}, key=axis.ease)
        points: list[Point] = []
        before: Promise | None = None
        for value in tightest_first:
            if value == now:
                found: Promise | None = Promise(plan, self.snapshot, plan.attainment)
                problem = ""
            else:
                found, problem = self._found({objective: value}, before)
            points.append(_point(value, found, problem))
            before = found or before
            if said is not None and value != now:
                said(objective, points[-1], sum(point.value != now for point in points), len(tightest_first) - 1)
        return Curve(objective.model, axis, axis.unit, now, tuple(points))

    def easier(self, plan: Plan, said: Said | None = None) -> tuple[Easier, ...]:
        """One step easier, of every objective of every model: those that save money, the most first."""
        steps = tuple(self.steps())
        found: list[Easier] = []
        in_force = Promise(plan, self.snapshot, plan.attainment)
        for done, (objective, now, then) in enumerate(steps, 1):
            other, problem = self._found({objective: then}, in_force)
            if said is not None:
                said(objective, _point(then, other, problem), done, len(steps))
            if other is None or rank_of(other) >= rank_of(in_force):
                continue
            saved = plan.usd_per_hour - other.plan.usd_per_hour
            if saved >= CENT:
                share = saved / plan.usd_per_hour
                found.append(Easier(objective.model, objective.axis, objective.axis.unit, now, then, saved, share))
        return tuple(sorted(found, key=lambda each: -each.usd_per_hour))

    def steps(self) -> Iterator[tuple[Objective, float, float]]:
        """(objective, its value, one step easier), of all that `easier` looks at."""
        for model in models_of(self.recipe):
            for axis in Axis:
                objective = Objective(model, axis)
                now = now_of(self.recipe, objective)
                if (then := axis.easier(now)) is not None:
                    yield objective, now, then

    def _found(self, values: Mapping[Objective, float], tighter: Promise | None) -> tuple[Promise | None, str]:
        """The plan, or why there is none. `tighter`: a plan for a tighter objective."""
        try:
            attain, templates, snapshot = self._under(*under(self.recipe, values))
        except UnservableError as error:
            return None, str(error)
        found = self.session.found(snapshot, templates.library, attain)
        if tighter is None or rank_of(tighter) >= rank_of(found):
            return found, ""
        seen = Promise(tighter.plan, tighter.snapshot, {} if attain is None else attain(tighter.plan, tighter.snapshot))
        return (seen if rank_of(seen) < rank_of(found) else found), ""

    def _under(self, recipe: Recipe, own: PipelineRecipe) -> tuple[Attainment | None, Templates, Snapshot]:
        """What a plan of `recipe` is made from; `own`: the part of it whose templates are others."""
        attain, templates = self._made(recipe, own)
        # A cap is of a promise: without one the class is planned with as the paper has it.
        promised = {} if attain is None else attain.classes
        settings = self.snapshot.settings.of_classes(promised)
        version = templates.library.version
        return attain, templates, versioned(replace(self.snapshot, settings=settings, library_version=version))

    def _made(
        self, recipe: Recipe, own: PipelineRecipe, gone: Collection[str] = ()
    ) -> tuple[Attainment | None, Templates]:
        """What simulates plans of `recipe`, and its templates, without those of the work classes that are `gone`."""
        running = {instance.template_id for instance in self.snapshot.instances}
        of_own = obtain(Recipe((own,)), self.session.store, self.session.progress, protected=running)
        library = in_place_of(self.library, of_own.library, gone)
        version = hashlib.blake2b(
            f"{self.library.version}/{of_own.library.version}".encode(), digest_size=16
        ).hexdigest()
        templates = Templates(of_own.cost_model, replace(library, version=version), self.session.store)
        attain = self._attain[0].under(recipe, templates) if self._attain else self.session.attain(recipe, templates)
        if attain is not None:
            self._attain[:] = [attain]
        return attain, templates


def costs_of_stored(session: PlanningSession, plan: Plan, recipe: Recipe) -> ObjectiveCosts:
    """Return the costs of a plan on record. `recipe`: of its fleet as it is asked for now.

    Raises ValueError where the plan was made with other templates than that recipe gives, LookupError for a plan whose
    snapshot is gone."""
    snapshot = session.plans.snapshot(plan.snapshot_version)
    running = {instance.template_id for instance in snapshot.instances}
    library = obtain(recipe, session.store, session.progress, protected=running).library
    if library.version != plan.library_version:
        raise ValueError(
            f"plan {plan.id[:12]} was made with other templates than its fleet has now: the objectives, workloads, "
            "models or profiles have changed since. Plan the fleet again, and ask about that plan"
        )
    return ObjectiveCosts(session, recipe, snapshot, library)


def _point(value: float, found: Promise | None, problem: str) -> Point:
    if found is None:
        return Point(value, None, 1.0, False, problem)
    return Point(value, found.plan.usd_per_hour, unmet_share(found.plan, found.snapshot), found.is_kept)


def rank_of(found: Promise) -> tuple[bool, float, float]:
    """Lower is better."""
    unmet = sum(rate for rate in found.plan.unmet.values() if rate > SERVED)
    return not found.is_kept, round(unmet, 6), found.plan.usd_per_hour
