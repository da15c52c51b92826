"""Search for whole instances from the relaxation: least unmet demand first, then the least cost, with a proven
bound."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from control.allocator.columns import Floats, Ints, PickedColumns, concatenate
from control.allocator.frame import Level
from control.allocator.polish import WIDTHS, polish, units
from control.allocator.problem import AllocationProblem
from control.allocator.program import Effort, MilpSolution, MilpSolver, Program, Start
from control.allocator.refine import Refined, can_refine, refine
from control.allocator.relaxation import NOTHING, Relaxation, Relaxed
from control.allocator.restricted import restrict_to
from templates_lib.values.settings import WorkLimits

Progress = Callable[[str, float, float], None]
"""Called with (stage, objective of the best plan so far, bound)."""

Floor = Callable[[float | None], tuple[float, float]]
"""Called with the seconds that are left (None: no limit); returns a bound, and the seconds that it took."""

UNMET_GAP = 1e-6
SLACK = 1e-6
"""Room above the least unmet demand, as a share of it, so that rounding does not make the next stage infeasible."""


ROOM = 0.15
"""Share of the relaxation's bound that a plan is first expected to cost more than it."""
FEW_IMPROVING = 3_000
"""Number of columns that may improve a plan up to which all are searched at once, without polishing it first."""
FEW_STOPS = 3
"""Stops of a route up to which few columns are searched without a tighter bound."""
POOL = 400
"""Columns in the first program for whole plans."""
POOL_NODES = 200
MANY_HOPS = 2_000
"""Flows from which on a program without zones bounds more in a second than one with them does in a minute."""
PROOF = "proof"
"""Stage of the programs over all that a better plan may use."""
POLISH_NODES = 50
POLISH_GAP = 1e-4
POLISH_SHARE = 0.5
"""Share of the simplex iterations that polishing gets; the rest is for the proof."""
OUT_OF_WORK = MilpSolution(None, np.inf, -np.inf, False, 0, 0, 0.0, False)


@dataclass(frozen=True, slots=True, eq=False)
class Incumbent:
    counts: dict[int, int]
    """Instances by template · G + group."""
    objective: float


@dataclass(frozen=True, slots=True, eq=False)
class SearchOutcome:
    incumbent: Incumbent
    bound: float
    relaxed: Relaxed
    row_upper: Floats
    """Limits of the rows, with the least unmet demand in them."""
    timed_out: bool
    statistics: dict[str, float] = field(default_factory=dict)


class Search:
    """One solve. `run` reads: relax, fix the least unmet demand, find a plan, prove it."""

    def __init__(
        self,
        problem: AllocationProblem,
        milp: MilpSolver,
        progress: Progress,
        known: Ints,
        least: float = -np.inf,
        floor: Floor | None = None,
    ) -> None:
        """`known`: template · G + group of what plans of problems much like this one rent. `least`: the least that the
        objective of a plan can be which leaves nothing unmet. `floor` finds out more of that, where flows are many."""
        self._problem, self._milp, self._progress, self._known, self._least = problem, milp, progress, known, least
        self._floor = floor
        settings = problem.snapshot.settings
        self._limits: WorkLimits = settings.limits
        self._seed = settings.seed
        self._relaxation = Relaxation(problem, settings.seed)
        self._seconds = 0.0
        self._timed_out = False
        self._rounds = 0
        self._is_done = False
        """Nothing is left to search for, whether or not the gap is reached."""
        self._nodes = 0
        self._iterations = 0
        self._bound = -np.inf
        self._best: Incumbent | None = None
        self._recalled: Incumbent | None = None
        """The best of what was known. Where nothing on the way to the proof was better, nothing is likely to be."""
        self._wanted: dict[int, int] = {}
        """Counts that reach the least unmet demand: their columns are in every later program."""

    def run(self) -> SearchOutcome:
        relaxed, values = self._relax()
        if not any(values):
            self._raise_bound(self._least)
            self._recall()
            if self._best is not None and self._gap() <= self._limits.gap:
                self._is_done = True
            elif self._is_large() and can_refine(self._problem):
                self._refine(relaxed)
            else:
                self._raise_floor()
                if self._best is not None and not self._is_proven_at_once(relaxed):
                    self._find(relaxed)
        if self._best is None and (any(values) or not self._find(relaxed)):
            relaxed = self._least_unmet(values)
            if not self._find(relaxed):
                raise self._failure("no whole plan reaches the least unmet demand just found")
        if not self._is_done:
            self._prove(relaxed)
        assert self._best is not None  # noqa: S101 - for the type checker; _find returned true
        return SearchOutcome(
            self._best,
            min(self._bound, self._best.objective),
            relaxed,
            self._relaxation.row_upper.copy(),
            self._timed_out,
            {
                "columns": float(self._relaxation.total),
                "generated_columns": float(self._relaxation.generated),
                "generation_rounds": float(self._relaxation.rounds),
                "lp_iterations": float(self._relaxation.iterations),
                "pricing_rounds": float(self._rounds),
                "relaxation_bound": relaxed.bound,
                "milp_nodes": float(self._nodes),
                "milp_iterations": float(self._iterations),
            },
        )

    @property
    def seconds(self) -> float:
        """Seconds that programs of whole instances took."""
        return self._seconds

    def _raise_floor(self) -> None:
        """A bound without zones, where flows between them are so many that programs of whole instances prove little."""
        if self._floor is None or len(self._problem.routing.hops) < MANY_HOPS or can_refine(self._problem):
            return
        bound, seconds = self._floor(self._left())
        self._seconds += seconds
        self._raise_bound(bound)

    def _recall(self) -> None:
        """Begin with the best plan of what others rent, if one of it serves as much."""
        if len(self._known):
            self._cost_program(self._templates_of(self._known), "known", POOL_NODES)
            self._recalled = self._best

    def _is_proven_at_once(self, relaxed: Relaxed) -> bool:
        """Tell whether all columns that could improve the plan are no more than are searched for a first one."""
        assert self._best is not None  # noqa: S101
        room = self._best.objective - relaxed.bound
        return len(self._survivors(relaxed, room)) <= self._limits.incumbent_columns

    def _relax(self) -> tuple[Relaxed, tuple[float, ...]]:
        """The least cost at the least unmet demand of the relaxation, and that demand by level."""
        levels = self._problem.frame.levels
        relaxed = self._relaxation.minimise(self._dear(), cost=True)
        values = [_value(level, relaxed.vertex.x) for level in levels]
        if max(values, default=0.0) > NOTHING:
            values = []
            for level in levels:
                weights = dict(zip(level.variables, level.weights, strict=True))
                relaxed = self._relaxation.minimise(weights, cost=False)
                values.append(_value(level, relaxed.vertex.x))
                self._relaxation.limit(level.row, _roomy(values[-1]))
        for level, value in zip(levels, values, strict=True):
            self._relaxation.limit(level.row, _roomy(value))
        relaxed = self._relaxation.minimise({}, cost=True)
        self._bound = relaxed.bound
        self._progress("relaxation", np.inf, relaxed.bound)
        return relaxed, tuple(0.0 if v <= NOTHING else v for v in values)

    def _dear(self) -> dict[int, float]:
        """A price on unmet demand that no plan would rather pay, higher for higher priorities."""
        levels = self._problem.frame.levels
        return {v: self._relaxation.dear * (len(levels) - i) for i, level in enumerate(levels) for v in level.variables}

    def _least_unmet(self, least: tuple[float, ...]) -> Relaxed:
        """Fix the least unmet demand that whole instances reach, level by level, and relax again at that.

        Among few columns first; among more where these stay above `least`, which the relaxation reaches.
        """
        self._release_levels()
        relaxed = self._relaxation.minimise(self._dear(), cost=True)
        for limit in (self._limits.incumbent_columns, self._limits.proof_columns):
            self._release_levels()
            picked = self._pick(relaxed, limit)
            values = self._fix_unmet(picked)
            reached = all(value <= _roomy(low) + SLACK for value, low in zip(values, least, strict=True))
            if reached or len(picked) == self._relaxation.total:
                break
        relaxed = self._relaxation.minimise({}, cost=True)
        self._bound = relaxed.bound
        return relaxed

    def _release_levels(self) -> None:
        for level in self._problem.frame.levels:
            self._relaxation.limit(level.row, np.inf)

    def _fix_unmet(self, picked: PickedColumns) -> list[float]:
        """The least unmet demand of each level that whole instances of these columns reach, which limits it."""
        values: list[float] = []
        for level in self._problem.frame.levels:
            weights = np.zeros(len(self._problem.frame.variables))
            weights[list(level.variables)] = level.weights
            program = restrict_to(self._problem, picked, self._relaxation.row_upper, weights, cost=False)
            start = program.start(self._wanted) if self._wanted else None
            answer = self._solve(program.program, start, UNMET_GAP, "unmet demand")
            if answer.x is None:
                raise self._failure("no plan was found although demand may stay unmet")
            values.append(_value(level, answer.x))
            self._relaxation.limit(level.row, _roomy(values[-1]))
            self._wanted = program.counts(answer.x)
        return values

    def _find(self, relaxed: Relaxed) -> bool:
        """A first plan from few columns; whether there is one."""
        picked = self._pick(relaxed, self._limits.incumbent_columns)
        whole = len(picked) == self._relaxation.total
        answer = self._cost_program(picked, "plan")
        if whole and answer.complete:
            self._bound = max(self._bound, answer.bound)
            self._is_done = self._best is not None
        return self._best is not None

    def _failure(self, what: str) -> Exception:
        """Make the exception for a search without plan. There always is one, if only one that serves nothing: time was
        short, or this is a mistake."""
        if self._timed_out:
            return ValueError(
                f"no plan was found within solver.wall_clock_s = {self._limits.wall_clock_s:g}: allow more"
            )
        return RuntimeError(f"{what}; please report this")

    def _is_large(self) -> bool:
        """Tell whether a tighter bound is worth its rounds: a program over a few thousand columns is solved sooner.

        Not where routes are long: every stop has a partly idle instance, which the linear relaxation does not count.
        """
        stops = max((len(tree.stops) for tree in self._problem.routing.trees), default=0)
        return stops > FEW_STOPS or self._relaxation.total > 2 * self._limits.incumbent_columns

    def _refine(self, relaxed: Relaxed) -> None:
        """A tight bound, a first plan from the columns seen on the way, better ones near it, and then the proof."""
        room = ROOM * max(relaxed.bound, 1e-6)
        if self._best is not None:  # what costs more than that is no use
            room = max(self._best.objective - relaxed.bound, room * SLACK)
        found = self._first_plan(relaxed, room)
        if self._best is not None and self._best.objective > relaxed.bound + room and not found.narrowed:
            found = self._first_plan(relaxed, self._best.objective - relaxed.bound)
        if self._best is None or self._gap() <= self._limits.gap:
            self._is_done = self._best is not None
            return
        order = found.order
        if self._is_worth_polishing(len(self._improving(found, order))):
            some = self._improving(found, order[: self._limits.incumbent_columns])
            self._polish(found, np.unique(np.concatenate([found.in_bundles, order[:POOL], some])))
        if self._gap() > self._limits.gap:
            self._prove_refined(found, self._improving(found, order))
        self._is_done = True

    def _first_plan(self, relaxed: Relaxed, room: float) -> Refined:
        """Prices for what demands share, and plans from the columns that answer them best."""
        found = refine(self._problem, relaxed, self._relaxation.row_upper, room, self._seed, self._raise_bound)
        self._raise_bound(found.bound)
        self._rounds += found.rounds
        near = np.union1d(found.in_bundles, found.order[:POOL])
        for pool in (found.in_bundles, near):
            self._cost_program(self._whole_templates(found.examined.take(pool)), "plan", POOL_NODES)
            if self._best is not None:
                break
        return found

    def _improving(self, found: Refined, at: Ints) -> Ints:
        """Return those of the columns that a plan better than the best so far may use."""
        assert self._best is not None  # noqa: S101
        return at[found.rise[at] <= self._best.objective - found.priced_bound]

    def _is_worth_polishing(self, improving: int) -> bool:
        """Tell whether to better the plan part by part first. Where a neighbourhood is as large as the whole, it is no
        less work than the proof, which is left to it as long as it can be had."""
        if improving <= FEW_IMPROVING:
            return False
        return improving > self._limits.proof_columns or units(self._problem) > WIDTHS[0]

    def _polish(self, found: Refined, pool: Ints) -> None:
        assert self._best is not None  # noqa: S101
        picked = self._whole_templates(found.examined.take(pool))
        cost = self._problem.frame.variables.cost
        program = restrict_to(self._problem, picked, self._relaxation.row_upper, cost, cost=True)

        def solve(part: Program, start: Start) -> MilpSolution | None:
            if self._iterations > POLISH_SHARE * self._limits.simplex_iterations:
                return None
            return self._solve(part, start, POLISH_GAP, "polish", POLISH_NODES)

        def better(counts: dict[int, int], objective: float) -> None:
            self._best = Incumbent(counts, objective)
            self._progress("polish", objective, self._bound)

        target = self._bound / (1 - self._limits.gap)
        polish(self._problem, program, self._best.counts, self._best.objective, target, self._seed, solve, better)

    def _prove_refined(self, found: Refined, improving: Ints) -> None:
        """A last program over all columns that a better plan may use, unless they are too many to prove anything."""
        assert self._best is not None  # noqa: S101
        if len(improving) > self._limits.proof_columns:
            return
        room = self._best.objective - found.priced_bound
        answer = self._cost_program(self._whole_templates(found.examined.take(improving)), PROOF)
        self._raise_bound(min(answer.bound, found.priced_bound + room, found.limit))

    def _raise_bound(self, bound: float) -> None:
        if bound > self._bound:
            self._bound = bound
            self._progress("bound", np.inf if self._best is None else self._best.objective, bound)

    def _prove(self, relaxed: Relaxed) -> None:
        """Search among all columns that a better plan may use; the others cannot matter."""
        assert self._best is not None  # noqa: S101
        room = self._best.objective - relaxed.bound
        survivors = self._survivors(relaxed, room)
        keep, least_left_out = self._cheapest(survivors, self._limits.proof_columns)
        answer = self._cost_program(keep, PROOF)
        self._bound = max(self._bound, min(answer.bound, relaxed.bound + min(least_left_out, room)))
        self._is_done = self._gap() <= self._limits.gap

    def _gap(self) -> float:
        assert self._best is not None  # noqa: S101
        return (self._best.objective - self._bound) / max(abs(self._best.objective), 1e-9)

    def _cost_program(self, picked: PickedColumns, stage: str, nodes: int | None = None) -> MilpSolution:
        """Minimise cost over columns, and keep the plan if it is the best so far."""
        frame = self._problem.frame
        program = restrict_to(self._problem, picked, self._relaxation.row_upper, frame.variables.cost, cost=True)
        known = self._wanted if self._best is None else self._best.counts
        start = program.start(known) if known else None
        answer = self._solve(program.program, start, self._limits.gap, stage, nodes)
        if answer.x is not None and (self._best is None or answer.objective < self._best.objective):
            self._best = Incumbent(program.counts(answer.x), answer.objective)
            self._progress(stage, answer.objective, self._bound)
        return answer

    def _solve(
        self, program: Program, start: Start | None, gap: float, stage: str, nodes: int | None = None
    ) -> MilpSolution:
        limits = self._limits
        iterations = limits.simplex_iterations - (self._iterations if self._best is not None else 0)
        if iterations <= 0:
            return OUT_OF_WORK
        looks = stage != PROOF or self._recalled is None or self._best is not self._recalled
        effort = Effort(gap, nodes or limits.nodes, iterations, self._seed, self._left(), looks)
        answer = self._milp(program, effort, start, lambda value: self._progress(stage, value, self._bound))
        self._seconds += answer.seconds
        self._nodes += answer.nodes
        self._iterations += answer.iterations
        self._timed_out |= answer.timed_out
        return answer

    def _left(self) -> float | None:
        """Seconds that are left; None: as many as it takes."""
        limit = self._limits.wall_clock_s
        return None if limit is None else max(0.0, limit - self._seconds)

    def _pick(self, relaxed: Relaxed, limit: int) -> PickedColumns:
        """Columns of low reduced cost, as many for every class, and all that the relaxation uses or that run."""
        if self._relaxation.total <= limit:
            return self._problem.columns.all()
        columns = self._problem.columns
        near = self._survivors(relaxed, 0.02 * max(1.0, abs(relaxed.vertex.objective)))
        first = columns.entry_class[columns.entry_start[near.point]]
        chosen: list[Ints] = []
        for k in range(columns.classes):
            mine = np.flatnonzero(first == k)
            share = limit // columns.classes
            order = np.argsort(near.reduced_cost[mine], kind="stable")
            chosen.append(mine[order[:share]])
        at = np.sort(np.concatenate(chosen))
        return self._whole_templates(concatenate([near.take(at), self._used(relaxed)]))

    def _used(self, relaxed: Relaxed) -> PickedColumns:
        """Columns that the relaxation uses."""
        used = relaxed.vertex.x[len(self._problem.frame.variables) :] > NOTHING
        return PickedColumns(relaxed.picked.point[used], relaxed.picked.group[used], np.zeros(int(used.sum())))

    def _survivors(self, relaxed: Relaxed, room: float) -> PickedColumns:
        return self._problem.columns.under(relaxed.prices, room * (1 + 1e-6) + 1e-6)

    def _cheapest(self, survivors: PickedColumns, limit: int) -> tuple[PickedColumns, float]:
        """The `limit` columns of least reduced cost, and the least reduced cost among the others."""
        order = np.argsort(survivors.reduced_cost, kind="stable")
        least = float(survivors.reduced_cost[order[limit]]) if len(order) > limit else np.inf
        return self._whole_templates(survivors.take(np.sort(order[:limit]))), least

    def _whole_templates(self, picked: PickedColumns) -> PickedColumns:
        """All points of every picked (template, group), those of running templates added, each once."""
        groups = len(self._problem.supply.groups)
        return self._templates_of(self._problem.columns.library.point_template[picked.point] * groups + picked.group)

    def _templates_of(self, key: Ints) -> PickedColumns:
        """The same for template · G + group."""
        columns, frame = self._problem.columns, self._problem.frame
        groups = len(self._problem.supply.groups)
        counts = self._best.counts if self._best is not None else self._wanted
        key = np.unique(np.concatenate([key, frame.running_key, np.array(sorted(counts), dtype=np.int64)]))
        owner, point = columns.points_of(key // groups)
        return PickedColumns(point, (key % groups)[owner], np.zeros(len(point)))


def _value(level: Level, x: Floats) -> float:
    return float(x[list(level.variables)] @ np.array(level.weights))


def _roomy(value: float) -> float:
    return value * (1 + SLACK) + NOTHING
