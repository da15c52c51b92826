"""Cost against Homo and Cauchy in the core and extended set-ups (Coral, section 6.3, figure 7)."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

from bench.evaluation.campaign import Campaign
from bench.evaluation.epochs import EPOCHS, Epoch
from bench.evaluation.methods import NAMES
from bench.evaluation.published import COST_TIMES, DEAREST, DEAREST_TIMES, SOLVE_S
from bench.evaluation.table import Table

CHEAPER_BY = 1e-3
"""What a baseline may seem cheaper by: the plan's own gap."""
COLUMNS = (
    "method", *(f"epoch {n + 1}" for n in range(EPOCHS)), "average, $/h", "x Medley", "paper", "starts", "solve, s",
)  # fmt: skip


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Whether no baseline is cheaper than Medley."""
    met = True
    for setup in campaign.setups:
        of = campaign.all_methods(setup, "balanced")
        print(f"Section 6.3, {setup}: $/h of rent and amortised starts; solve: paper {SOLVE_S[setup, 'balanced']} s")
        met &= show_costs(of, setup, "balanced", folder)
        print(f"Of each model, average $/h of rent (prefill + decode), {setup}")
        _show_models(of, setup, folder)
    return met


def show_costs(of: Mapping[str, tuple[Epoch, ...]], setup: str, kind: str, folder: Path | None) -> bool:
    """Print what each method pays; whether no baseline that serves as much is cheaper than Medley."""
    table = Table(f"cost-{setup}-{kind}", COLUMNS)
    own = average_usd(of["medley"])
    for method, epochs in of.items():
        average = average_usd(epochs)
        starts = sum(e.plan.init_usd for e in epochs) / sum(e.usd_per_hour for e in epochs)
        solve_s = mean(e.plan.solve_s for e in epochs)
        table.add(
            NAMES[method],
            *(f"{e.usd_per_hour:.2f}" for e in epochs),
            f"{average:.2f}",
            f"{average / own:.2f}",
            COST_TIMES[setup, kind].get(method, ""),
            f"{100 * starts:.1f} %",
            f"{solve_s:.2f}" if solve_s else "",
        )
    table.show(folder)
    served = mean(e.made.share for e in of["medley"])
    able = [m for m, epochs in of.items() if mean(e.made.share for e in epochs) >= served]
    return all(average_usd(of[m]) >= own * (1 - CHEAPER_BY) for m in able)


def average_usd(epochs: tuple[Epoch, ...]) -> float:
    return mean(e.usd_per_hour for e in epochs)


def _show_models(of: Mapping[str, tuple[Epoch, ...]], setup: str, folder: Path | None) -> None:
    rent = {method: _rent(epochs) for method, epochs in of.items()}
    models = sorted({model for by_leg in rent.values() for model, _ in by_leg})
    table = Table(f"cost-{setup}-models", ("model", *(NAMES[m] for m in of), "Homo x", "paper", "Cauchy x", "paper"))
    for model in models:
        by_method = {m: (by_leg.get((model, "prefill"), 0.0), by_leg.get((model, "decode"), 0.0)) for m, by_leg in
                     rent.items()}  # fmt: skip
        times = {m: sum(by_method[m]) / sum(by_method["medley"]) for m in ("homo", "cauchy")}
        paper = DEAREST_TIMES[setup] if model == DEAREST[setup] else {}
        table.add(
            model,
            *(f"{prefill:.2f} + {decode:.2f}" for prefill, decode in by_method.values()),
            f"{times['homo']:.2f}",
            paper.get("homo", ""),
            f"{times['cauchy']:.2f}",
            paper.get("cauchy", ""),
        )
    table.show(folder)


def _rent(epochs: tuple[Epoch, ...]) -> dict[tuple[str, str], float]:
    """(model, phase) → average $/h of rent."""
    rent: defaultdict[tuple[str, str], float] = defaultdict(float)
    for epoch in epochs:
        for instance in epoch.plan.instances:
            rent[instance.model, instance.phase] += instance.usd_per_hour / len(epochs)
    return dict(rent)
