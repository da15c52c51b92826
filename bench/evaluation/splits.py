"""What a node of eight GPUs serves of the dearest model, by how it is split inside.

The Coral paper's baselines pay 4 to 5 times what Coral does for Qwen3-235B (section 6.3), ours do not; this shows what
of that hangs on how a single node is used.
"""

from pathlib import Path

import numpy as np

from bench.evaluation.campaign import Campaign
from bench.evaluation.rated_sets import pipeline_recipe
from bench.evaluation.table import Table
from control.planning.cost_models import cost_models_of, gpus_of
from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.phases import node_phases
from templates_lib.values.work import Phase

MODEL = "qwen3-235b-a22b"
GPUS = ("H100", "A100-80")
ONLY = 3
"""The role of a node that is a whole pipeline."""


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Nothing to miss: it only shows."""
    made = campaign.set_up("extended")
    recipe = pipeline_recipe(made)
    served = next(s for s in recipe.served if s.name == MODEL)
    print(f"{MODEL} on one node of eight GPUs, tokens/s by its split (0: it cannot keep the objective)")
    table = Table("splits", ("split", *(f"{phase}, {gpu}" for phase in ("prefill", "decode") for gpu in GPUS)))
    rates: dict[Parallel, dict[tuple[str, str], float]] = {}
    for phase in (Phase.PREFILL, Phase.DECODE):
        phases = node_phases(served, phase, gpus_of(recipe), cost_models_of(recipe)[served.engine])
        for gpu in GPUS:
            node = next(n for n in recipe.nodes if (n.gpu, n.gpu_count) == (gpu, 8))
            for work in phases.works(node):
                best = work.best(np.array([served.slo_ms(phase) / 1000]))
                of_split = rates.setdefault(work.split.parallel, {})
                of_split[phase.value, gpu] = float(best.units_per_s[ONLY, 0, -1])
    for split, of_split in rates.items():
        if any(of_split.values()):
            cells = (of_split.get((phase, gpu), 0.0) for phase in ("prefill", "decode") for gpu in GPUS)
            table.add(f"tp {split.tp}, dp {split.dp}, pp {split.pp}, ep {split.ep}", *(f"{c:,.0f}" for c in cells))
    table.show(folder)
    for node in recipe.nodes:
        if node.gpu in GPUS and node.gpu_count == 8:
            usd = min(o.usd_per_hour for o in made.snapshot.offers if o.node_config == node.id)
            print(f"{node.id} costs {usd:.2f} $/h where it is cheapest")
    print()
    return True
