"""Goodput when GPUs are scarce (Coral, section 6.4, figures 8 to 10).

A method that cannot serve the whole demand is scaled down uniformly until it can, as in the paper; its cost is that of
what it then rents, so that cost alone does not compare methods here. `unequally` is what its plan for the whole demand
serves, with what some models go without; $/M tokens are of that plan.
"""

from pathlib import Path
from statistics import mean

from bench.evaluation.campaign import Campaign
from bench.evaluation.cost import average_usd, show_costs
from bench.evaluation.epochs import EPOCHS
from bench.evaluation.methods import NAMES
from bench.evaluation.published import GOODPUT_TIMES, SCARCE_DEARER, SOLVE_S
from bench.evaluation.table import Table


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Whether no baseline serves more than Medley, or as much for less."""
    met = True
    for setup in campaign.setups:
        of = campaign.all_methods(setup, "scarce")
        print(f"Section 6.4, {setup}: $/h of what is rented; solve: paper {SOLVE_S[setup, 'scarce']} s")
        met &= show_costs(of, setup, "scarce", folder)
        print(f"Output tokens per second within the objectives, {setup}, and the share of the demand that is served")
        columns = (
            "method",
            *(f"epoch {n + 1}" for n in range(EPOCHS)),
            "average",
            "Medley x",
            "paper",
            "unequally",
            "$/M tokens",
        )
        table = Table(f"goodput-{setup}", columns)
        own = mean(e.goodput for e in of["medley"])
        for method, epochs in of.items():
            goodput, unequal = mean(e.goodput for e in epochs), mean(e.best_goodput for e in epochs)
            usd = mean(e.made.whole.usd_per_hour + e.made.whole.init_usd for e in epochs)
            table.add(
                NAMES[method],
                *(f"{e.goodput:,.0f} ({100 * e.made.share:.0f} %)" for e in epochs),
                f"{goodput:,.0f}",
                f"{own / goodput:.2f}" if goodput else "inf",
                GOODPUT_TIMES[setup].get(method, ""),
                f"{unequal:,.0f}",
                f"{usd / unequal / 3600 * 1e6:.2f}",
            )
            met &= goodput <= own * (1 + 1e-9)
        table.show(folder)
        plenty, short = (average_usd(campaign.epochs(setup, kind, "medley")) for kind in ("balanced", "scarce"))
        kinds = {k: _mixed(campaign, setup, k) for k in ("balanced", "scarce")}
        print(
            f"Scarcity makes Medley {100 * (short / plenty - 1):.0f} % dearer (paper {SCARCE_DEARER[setup]}); "
            f"instances of more than one kind of node: {kinds['balanced']} before, {kinds['scarce']} then\n"
        )
    return met


def _mixed(campaign: Campaign, setup: str, kind: str) -> str:
    counts = [
        sum(i.count for i in epoch.plan.instances if len(i.nodes) > 1)
        for epoch in campaign.epochs(setup, kind, "medley")
    ]
    return f"{min(counts)}-{max(counts)}"
