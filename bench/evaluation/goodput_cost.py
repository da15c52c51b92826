"""Cost of a million output tokens within both objectives: half an hour of the traces, every method certified alike.

The half hour is cut into epochs of six minutes, as for the costs of plans for throughput (`epochs`); in each, every
method plans for the rate of the traces under the same promise loop (`control.planning.promise`), on its own fleet of
the epoch before. The plan is then simulated at its planned rates with five seeds that no certificate has seen, Poisson
arrivals and lengths drawn one by one, six minutes each after one of warm-up. Dollars are rent, traffic and starts;
tokens are output tokens of requests within both objectives. `served` is the share of the demand that the plans serve.

Where supply is short, a method that leaves the dearest model unserved sells the tokens of the others for less. Wherever
Medley serves more than another method, it also plans for just the demand that the other's plans serve, model by model
and epoch by epoch (`for what Homo-joint serves`), and the bar is judged there: the same work, for less.

The bar: no other method's million costs less than Medley's, in any set-up and market.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from bench.evaluation.campaign import Campaign
from bench.evaluation.epochs import EPOCH_S, EPOCHS, demand_share, market, traffic_factors, with_traffic
from bench.evaluation.methods import NAMES, checked_plan
from bench.evaluation.offered_load import offered_load
from bench.evaluation.rated_sets import pipeline_recipe
from bench.evaluation.table import Table
from bench.running_fleet import carried_out
from bench.scenarios import SetUp
from control.planning.promise import Promise, promised
from control.planning.recipe import Recipe
from control.planning.recording import versioned
from control.simulator.attainment import UNREFUSED, SimulatedAttainment
from control.simulator.report.fate import Fate, judge
from control.simulator.serving.plan_timeline import timeline_of_plan
from control.simulator.serving.simulate import simulate
from policies.routing import BY_SLACK
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

SEEDS = tuple(range(20261201, 20261206))
KINDS = ("balanced", "scarce")
WARM_UP_S, AFTER_S = 60.0, 300.0
SAME_SHARE = 1e-3
"""Shares of the demand that are no further apart are the same."""
NO_RPS = 1e-6
CHEAPER_BY = 2e-3
"""What another method may seem cheaper by: the plan's own gap, and what is left to chance."""


@dataclass(frozen=True, slots=True)
class Half:
    """What a method makes of the half hour; means over its epochs."""

    usd_per_hour: float
    tokens_per_s: float
    """Output tokens within both objectives."""
    within: float
    """Share of the simulated requests within both objectives."""
    served: float
    """Share of the demand of the half hour."""
    certified: int
    """Epochs whose plan was certified."""
    epochs: tuple[Promise, ...]

    @property
    def usd_per_million(self) -> float:
        return self.usd_per_hour / (self.tokens_per_s * 3600) * 1e6 if self.tokens_per_s else float("inf")


def run(campaign: Campaign, folder: Path | None) -> bool:
    table = Table("goodput-cost", ("market", "method", "$/h", "served", "within", "certified", "$ per million tokens"))

    def add(where: str, name: str, half: Half) -> None:
        table.add(
            where, name, f"{half.usd_per_hour:.2f}", f"{100 * half.served:.0f} %", f"{100 * half.within:.2f} %",
            f"{half.certified} of {EPOCHS}", f"{half.usd_per_million:.3f}",
        )  # fmt: skip
        print(f"{where} {name}: {half.usd_per_million:.3f} $, {100 * half.served:.0f} % served", flush=True)

    met, seeds = True, campaign.seeds(SEEDS)
    for setup in campaign.setups:
        made = campaign.promised(setup)
        for kind in (kind for kind in KINDS if kind in campaign.kinds):
            where, own = f"{setup} {kind}", half_hour(made, kind, "medley", seeds)
            add(where, NAMES["medley"], own)
            for method in (method for method in campaign.methods if method != "medley"):
                other = half_hour(made, kind, method, seeds)
                add(where, NAMES[method], other)
                like = own
                if other.served < own.served - SAME_SHARE:
                    like = half_hour(made, kind, "medley", seeds, other.epochs)
                    add(where, f"Medley for what {NAMES[method]} serves", like)
                met &= other.usd_per_million >= like.usd_per_million * (1 - CHEAPER_BY)
    table.show(folder)
    return met


def half_hour(
    made: SetUp, kind: str, method: str, seeds: tuple[int, ...], like: tuple[Promise, ...] | None = None
) -> Half:
    """`like`: the demand is what these plans serve, epoch by epoch."""
    epochs = tuple(_epochs(made, kind, method, like))
    goods = [goodput(made, found, seed) for found in epochs for seed in seeds]
    return Half(
        mean(found.plan.usd_per_hour + found.plan.init_usd for found in epochs),
        mean(tokens for tokens, _ in goods),
        mean(within for _, within in goods),
        mean(demand_share(found.plan, found.snapshot) for found in epochs),
        sum(found.is_kept for found in epochs),
        epochs,
    )


def _epochs(made: SetUp, kind: str, method: str, like: tuple[Promise, ...] | None) -> Iterator[Promise]:
    """Yield the promise of each epoch."""
    base, factors, library = market(made, kind), traffic_factors(made), made.templates.library
    recipe = made.recording.recipe
    assert isinstance(recipe, Recipe)
    attainment = SimulatedAttainment(recipe, made.templates)
    before: Plan | None = None
    for number in range(EPOCHS):
        now = with_traffic(base, {app: by_epoch[number] for app, by_epoch in factors.items()})
        now = now if like is None else _without(now, like[number].plan.unmet)
        now = versioned(now if before is None else carried_out(now, before))
        found = promised(now, lambda under: checked_plan(method, under, library), attainment)
        before = found.plan
        yield found


def _without(snapshot: Snapshot, unmet: Mapping[str, float]) -> Snapshot:
    """The demand less what is unmet of it."""
    less = (replace(each, requests_per_s=each.requests_per_s - unmet.get(each.key, 0.0)) for each in snapshot.demand)
    return replace(snapshot, demand=tuple(each for each in less if each.requests_per_s > NO_RPS))


def goodput(made: SetUp, found: Promise, seed: int) -> tuple[float, float]:
    """Simulate a plan at its planned rates; return output tokens per second within both objectives, and the share of
    requests that are."""
    recipe, length_s = pipeline_recipe(made), WARM_UP_S + EPOCH_S
    requests = offered_load(found.plan, found.snapshot, recipe, length_s, seed)
    placed = made.templates.placed(found.plan)[0]
    fleet = timeline_of_plan(placed, Recipe((recipe,)), found.snapshot.routes, length_s + AFTER_S, BY_SLACK)
    result = simulate(requests, fleet, UNREFUSED)
    judged = judge(requests, result, {one.name: one.slo for one in recipe.served}, fleet.length_s)
    counted = requests.arrival_s >= WARM_UP_S
    good = counted & (judged.fate == Fate.WITHIN)
    return float(requests.output_tokens[good].sum()) / EPOCH_S, float(good.sum() / counted.sum())
