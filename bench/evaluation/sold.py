"""What plans that keep their objectives cost, over sizes that are sold, in markets that our planner had no hand in.

The savings of the Coral paper's set-ups are of throughput, over sizes of which some are derived. Here every size is one
that its cloud sells in that region at that price (`derived` offers are left out), every plan promises percentile 99 and
is certified by the same loop (`control.planning.promise`), and a million tokens counts only output tokens of requests
within both objectives, in simulations with seeds that no certificate has seen. `one GPU type` is our planner kept to
replicas of one GPU type, of several sizes of node; Homo-joint's replicas are of one size as well.

Supply, balanced and skewed: three times what any method needs (`availability-*-normal.csv`). Scarce: GPUs by region and
type by a seeded draw, as few in all as let the greedy Homo baseline serve 1.25 (core) or 1.75 (extended) times the
demand for throughput: no solver says how many that is.

The bar: no other method that serves as much costs less.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np

from bench.evaluation.campaign import Campaign
from bench.evaluation.cost import CHEAPER_BY
from bench.evaluation.epochs import demand_share, market
from bench.evaluation.goodput_cost import SAME_SHARE, goodput
from bench.evaluation.methods import METHODS, NAMES, TIMED, WrongPlanError, checked_plan
from bench.evaluation.scale_down import scale_demand
from bench.evaluation.table import Table
from bench.extracts.make_availability import MARGIN, drawn_pattern, facts_of, least_scale, scaled
from bench.scenarios import SetUp, with_supply
from control.allocator import solve
from control.checker import check
from control.planning.promise import promised
from control.planning.recipe import Recipe
from control.planning.recording import versioned
from control.simulator.attainment import SimulatedAttainment
from policies.baselines import baseline
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

SEEDS = (20261211, 20261212, 20261213)
ONE_TYPE = "one_type"
SHOWN = {**NAMES, ONE_TYPE: "one GPU type"}


@dataclass(frozen=True, slots=True)
class Kept:
    usd_per_hour: float
    served: float
    """Share of the demand that the plan serves."""
    usd_per_million: float
    """$ for a million output tokens within both objectives."""
    is_certified: bool


def run(campaign: Campaign, folder: Path | None) -> bool:
    methods = [*campaign.methods, *([ONE_TYPE] if len(campaign.methods) == len(METHODS) else [])]
    costs = Table("sold", ("$/h", *(SHOWN[m] for m in methods), "saved", "against"))
    tokens = Table("sold-tokens", ("$ per million tokens", *(SHOWN[m] for m in methods)))
    met = True
    for setup in campaign.setups:
        made = campaign.promised(setup)
        for kind in campaign.kinds:
            where, snapshot = f"{setup} {kind}", sold(campaign, setup, kind)
            of = {method: kept(made, snapshot, method, campaign.seeds(SEEDS)) for method in methods}
            saved, against, is_least = _verdict(of)
            met &= is_least
            costs.add(where, *(_short(each) for each in of.values()), saved, against)
            tokens.add(where, *(f"{each.usd_per_million:.3f}" for each in of.values()))
            print(f"{where}: {', '.join(f'{SHOWN[m]} {_short(each)}' for m, each in of.items())}", flush=True)
    costs.show(folder)
    tokens.show(folder)
    return met


def sold(campaign: Campaign, setup: str, kind: str) -> Snapshot:
    """One of `epochs.KINDS`, over sizes that are sold."""
    made = campaign.promised(setup)
    if kind != "scarce":
        return _sold(market(made, kind))
    plain, snapshot = campaign.set_up(setup), _sold(made.snapshot)
    wanted, pattern = scale_demand(_sold(plain.snapshot), 1 + MARGIN[setup]), drawn_pattern(snapshot)

    def serves(scale: float) -> bool:
        supply = with_supply(wanted, facts_of(scaled(pattern, scale), wanted))
        return not baseline("homo")(supply, plain.templates.library, solve).unmet

    return with_supply(snapshot, facts_of(scaled(pattern, least_scale(serves)), snapshot))


def _sold(snapshot: Snapshot) -> Snapshot:
    return versioned(replace(snapshot, offers=tuple(offer for offer in snapshot.offers if not offer.derived)))


def kept(made: SetUp, snapshot: Snapshot, method: str, seeds: tuple[int, ...]) -> Kept:
    """Plan under the promise loop, and simulate what was planned. Raises WrongPlanError."""
    recipe = made.recording.recipe
    assert isinstance(recipe, Recipe)
    make = partial(one_type, library=made.templates.library) if method == ONE_TYPE else _method(method, made)
    found = promised(snapshot, make, SimulatedAttainment(recipe, made.templates))
    per_s = mean(goodput(made, found, seed)[0] for seed in seeds)
    usd = found.plan.usd_per_hour
    served = demand_share(found.plan, snapshot)
    return Kept(usd, served, usd / (per_s * 3600) * 1e6 if per_s else float("inf"), found.is_kept)


def _method(method: str, made: SetUp) -> Callable[[Snapshot], Plan]:
    return lambda under: checked_plan(method, under, made.templates.library)


def one_type(snapshot: Snapshot, library: Library) -> Plan:
    """The planner's own optimum over templates whose nodes are of one GPU type, whatever their sizes. Raises
    WrongPlanError."""
    types = [config.partition(":")[0] for config in library.configs]
    used = [(library.nodes[:, [t == gpu for t in types]] > 0).any(axis=1) for gpu in sorted(set(types))]
    plan = TIMED(snapshot, library.select(np.sum(used, axis=0) == 1), policy=ONE_TYPE)
    if violations := check(plan, snapshot):
        raise WrongPlanError(f"{ONE_TYPE} on {snapshot.version}: {violations[0]}")
    return plan


def _verdict(of: dict[str, Kept]) -> tuple[str, str, bool]:
    """Return what Medley saves, over which of those that serve as much, and whether none of them costs less."""
    if "medley" not in of:
        return "", "", True
    own = of["medley"]
    able = {m: each for m, each in of.items() if m != "medley" and each.served >= own.served - SAME_SHARE}
    if not able:
        return "", "none serves as much", True
    best = min(able, key=lambda method: able[method].usd_per_hour)
    saved = 1 - own.usd_per_hour / able[best].usd_per_hour
    return f"{100 * saved:.1f} %", SHOWN[best], saved > -CHEAPER_BY


def _short(each: Kept) -> str:
    served = "" if each.served > 1 - SAME_SHARE else f", serves {100 * each.served:.0f} %"
    return f"{each.usd_per_hour:.2f}{served}{'' if each.is_certified else ', not kept'}"
