"""Sensitivity of templates to N_max and rho on prefill of gpt-oss-120B (Coral, section 6.7, figure 13)."""

from pathlib import Path

import numpy as np

from bench.evaluation.campaign import Campaign
from bench.evaluation.published import PLATEAU
from bench.evaluation.rated_sets import rated_sets
from bench.evaluation.table import Table
from templates_lib.values.work import Phase

MODEL = "gpt-oss-120b"
LIMITS = ((1, 2.0), (2, 4.0), (3, 6.0), (4, 8.0), (5, 10.0), (6, 12.0), (7, 14.0), (8, 16.0))
"""(N_max, rho); the paper begins at (4, 8)."""
LOSS = 0.01


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Whether the best template at the paper's choice is within LOSS of the best of all."""
    made = campaign.set_up("extended")
    print(f"Section 6.7: templates of {MODEL} prefill; the paper's best one is no better beyond {PLATEAU}")
    columns = ("N_max, rho", "node sets", "templates", "seconds", "tokens/s per $/h", "of the best", "best template")
    table = Table("sensitivity", columns)
    rated = {limits: rated_sets(made, MODEL, Phase.PREFILL, *limits) for limits in LIMITS}
    most = {limits: float(r.units_per_s_per_usd.max()) for limits, r in rated.items()}
    best = max(most.values())
    for (n_max, rho), r in rated.items():
        row = r.best(np.ones(len(r.units_per_s), bool))
        nodes = " + ".join(f"{n} x {config.partition('/')[0]}" for config, n in r.nodes(row).items())
        table.add(
            f"{n_max}, {rho:g}",
            f"{r.sets.size:,}",
            f"{len(r.units_per_s):,}",
            f"{r.seconds:.2f}",
            f"{most[n_max, rho]:,.0f}",
            f"{100 * most[n_max, rho] / best:.1f} %",
            nodes,
        )
    table.show(folder)
    return most[PLATEAU] >= best * (1 - LOSS)
