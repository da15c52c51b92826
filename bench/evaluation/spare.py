"""Whether a plan that keeps its promises could do with one node less.

What the plan rents is taken for all the supply that there is, less one node of one of its offers, and the same promise
loop plans on it, for each offer in turn. Where it serves as much within every promise, that node could have been left
out: the plan paid for it in vain.
"""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.evaluation.attainment import attainment_of
from bench.evaluation.campaign import Campaign
from bench.evaluation.epochs import demand_share, market
from bench.evaluation.methods import checked_plan
from bench.evaluation.table import Table
from control.planning.promise import WORTH, promised
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


def run(campaign: Campaign, folder: Path | None) -> bool:
    table = Table("spare", ("market", "$/h", "nodes", "served", "could be left out", "s"))
    could = 0
    for setup in campaign.setups:
        made = campaign.promised(setup)
        for kind in campaign.kinds:
            base, began_s = market(made, kind), time.perf_counter()
            attained = attainment_of(made, 0)  # of most pools it knows already how they fare
            solve = partial(_solve, library=made.templates.library)
            found = promised(base, solve, attained)
            served = demand_share(found.plan, base)
            spare = []
            for offer in found.plan.offers:
                fewer = promised(_without_a_node(base, found.plan, offer.offer), solve, attained)
                if fewer.is_kept and demand_share(fewer.plan, base) >= served - WORTH:
                    spare.append(f"{offer.node_config} ({fewer.plan.usd_per_hour:.2f} $/h)")
            could += len(spare)
            table.add(
                f"{setup} {kind}", f"{found.plan.usd_per_hour:.2f}", str(sum(o.nodes for o in found.plan.offers)),
                f"{100 * served:.0f} %", ", ".join(spare) or "none", f"{time.perf_counter() - began_s:.0f}",
            )  # fmt: skip
            print(f"{setup} {kind}: {', '.join(spare) or 'none'}", flush=True)
    table.show(folder)
    return could == 0


def _solve(under: Snapshot, library: Library) -> Plan:
    return checked_plan("medley", under, library)


def _without_a_node(base: Snapshot, plan: Plan, offer: str) -> Snapshot:
    """Return `base` with no other supply than what `plan` rents, less one node of `offer`."""
    left = {each.offer: each.nodes - (each.offer == offer) for each in plan.offers}
    offers = tuple(replace(each, available_count=left[each.key]) for each in base.offers if left.get(each.key))
    return replace(base, offers=offers)
