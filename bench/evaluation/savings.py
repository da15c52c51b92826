"""What each method pays in every set-up and market, in one table: the one of the README."""

from collections.abc import Mapping
from pathlib import Path
from statistics import mean

from bench.evaluation.campaign import Campaign
from bench.evaluation.cost import average_usd
from bench.evaluation.epochs import Epoch
from bench.evaluation.methods import METHODS, NAMES
from bench.evaluation.table import Table


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Whether no baseline that serves as much is cheaper than Medley (the experiments check it once more)."""
    table = Table("savings", ("$/h", *(NAMES[m] for m in METHODS), "saved", "against"))
    met = True
    for setup in campaign.setups:
        for kind in campaign.kinds:
            of = campaign.all_methods(setup, kind)
            own = average_usd(of["medley"])
            able = [m for m in of if m != "medley" and _share(of[m]) >= _share(of["medley"])]
            best = min(able, key=lambda m: average_usd(of[m])) if able else None
            saved = 1 - own / average_usd(of[best]) if best else 0.0
            met &= saved > -1e-3
            verdict = (f"{100 * saved:.1f} %", NAMES[best]) if best else ("", "none serves as much")
            table.add(f"{setup} {kind}", *(_short(of, m) for m in of), *verdict)
    table.show(folder)
    return met


def _short(of: Mapping[str, tuple[Epoch, ...]], method: str) -> str:
    usd, served = average_usd(of[method]), _share(of[method])
    return f"{usd:.2f}" + ("" if served == 1 else f", serves {100 * served:.0f} %")


def _share(epochs: tuple[Epoch, ...]) -> float:
    return mean(e.served_share for e in epochs)
