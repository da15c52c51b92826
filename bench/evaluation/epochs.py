"""Half an hour of a set-up in epochs of six minutes (section 6.1): what each method rents as the demand moves."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bench.evaluation.methods import Offered, planned
from bench.evaluation.rated_sets import pipeline_recipe
from bench.resampled import resampled
from bench.running_fleet import carried_out
from bench.scenarios import SetUp, scarce
from control.planning.recording import versioned
from templates_lib.load.shapes import load_rates
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

EPOCHS = 5
EPOCH_S = 360.0
KINDS = ("balanced", "large-heavy", "small-heavy", "scarce")


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """What one method does in one epoch."""

    number: int
    """From 1, as in the paper."""
    made: Offered
    """On the method's own fleet of the epoch before."""

    @property
    def plan(self) -> Plan:
        return self.made.plan

    @property
    def usd_per_hour(self) -> float:
        """Rent, traffic and amortised initialisation: the paper's metric (section 6.1)."""
        return self.plan.usd_per_hour + self.plan.init_usd

    @property
    def served_share(self) -> float:
        """Of the requests, that what is rented serves: where some model gets nothing at all, the others' part."""
        if self.made.share:
            return self.made.share
        return demand_share(self.plan, self.made.snapshot)

    @property
    def goodput(self) -> float:
        """Output tokens per second within the objectives, by the plan, every model at the same share."""
        return self.made.share and _goodput(self.made.snapshot, self.plan)

    @property
    def best_goodput(self) -> float:
        """Those of the plan for the whole demand, which serves some models more than others."""
        return _goodput(self.made.snapshot, self.made.whole)


def demand_share(plan: Plan, snapshot: Snapshot) -> float:
    """Return the share of a snapshot's requests that a plan serves."""
    return 1 - sum(plan.unmet.values()) / sum(each.requests_per_s for each in snapshot.demand)


def traffic_factors(set_up: SetUp, windows: int = EPOCHS, window_s: float = EPOCH_S) -> dict[str, tuple[float, ...]]:
    """Model → rate in each window of its trace, as multiples of their mean (the traces are scaled uniformly)."""
    factors = {}
    for served in pipeline_recipe(set_up).served:
        rates = resampled(load_rates(served.shape.id), window_s).requests_per_s[:windows]
        factors[served.name] = tuple((rates / np.mean(rates)).tolist())
    return factors


def market(set_up: SetUp, kind: str) -> Snapshot:
    """One of KINDS at its mean demand."""
    return scarce(set_up.snapshot, set_up.name) if kind == "scarce" else set_up.demands()[kind]


def with_traffic(snapshot: Snapshot, factors: dict[str, float]) -> Snapshot:
    """Demand of each model times its factor."""
    demand = tuple(replace(d, requests_per_s=d.requests_per_s * factors[d.app]) for d in snapshot.demand)
    return replace(snapshot, demand=demand)


def run(set_up: SetUp, kind: str, method: str) -> Iterator[Epoch]:
    """The epochs in turn; what runs already costs no start, and is planned for again like everything else."""
    base, factors = market(set_up, kind), traffic_factors(set_up)
    library = set_up.templates.library
    before: Plan | None = None
    for number in range(EPOCHS):
        now = with_traffic(base, {app: by_epoch[number] for app, by_epoch in factors.items()})
        now = versioned(now if before is None else carried_out(now, before))
        made = planned(method, now, library)
        before = made.plan
        yield Epoch(number + 1, made)


def _goodput(snapshot: Snapshot, plan: Plan) -> float:
    """Output tokens per second of what the plan serves: the last leg's units."""
    routes = {r.id: r for r in snapshot.routes}
    return sum(f.requests_per_s * routes[f.route].legs[-1].units_per_request for f in plan.flows)
