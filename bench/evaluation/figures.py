"""What mixing GPU types within a replica opens (Coral, figures 1a and 1b), drawn into docs/."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.campaign import Campaign
from bench.evaluation.published import FIG_1A_TOKENS_PER_S_PER_USD
from bench.evaluation.rated_sets import RatedSets, rated_sets
from templates_lib.values.work import Phase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PURE, MIXED, PAPER = "#7f7f7f", "#e8833a", "#3b6fb6"
PAPERS_SET = {"L40S:1/n10": 3, "H100:2/n200": 3}
"""What figure 1a shows as the winner."""
SIZES = (1, 2, 4, 8)


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Nothing to miss: it only shows."""
    from matplotlib.figure import Figure

    made = campaign.set_up("extended")
    prefill = rated_sets(made, "qwen3-235b-a22b", Phase.PREFILL, 6, 12.0)
    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    bars, frontier = figure.subplots(1, 2)
    _draw_efficiency(bars, prefill)
    _draw_frontier(frontier, prefill, folder)
    figure.savefig(DOCS / "efficiency.png", dpi=130)
    decode = rated_sets(made, "gpt-oss-120b", Phase.DECODE, 6, 12.0)
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    _draw_steps(figure.subplots(), decode, folder)
    figure.savefig(DOCS / "throughputs.png", dpi=130)
    return True


def _draw_efficiency(axes: "Axes", rated: RatedSets) -> None:
    """Figure 1a: tokens/s for the money of the best sets of one kind of node, and of mixed ones."""
    bars: list[tuple[str, int, str]] = []
    for size in SIZES:
        # The node's size alone: larger ones are in a bar of their own.
        only = rated.made_of("H100", size) & ~(rated.made_of("H100", size // 2) if size > 1 else np.False_)
        if only.any():
            bars.append((f"H100, up to {size} a node", rated.best(only), PURE))
    for size in SIZES[1:]:
        mixed = rated.made_of("", size) & (rated.kinds > 1)
        bars.append((f"mixed, up to {size} a node", rated.best(mixed), MIXED))
    papers = rated.row_of(PAPERS_SET)
    if papers is not None:
        bars.append(("the paper's winner", papers, PAPER))
    print("Figure 1a: prefill of Qwen3-235B, tokens/s for one $/h", f"(paper: {FIG_1A_TOKENS_PER_S_PER_USD})")
    for place, (name, row, colour) in enumerate(bars):
        efficiency = float(rated.units_per_s_per_usd[row])
        axes.barh(place, efficiency, color=colour)
        axes.text(efficiency, place, f" {efficiency:,.0f}", va="center", fontsize=8)
        stages = " | ".join(
            f"{layers}: " + " + ".join(f"{n if n > 1 else ''} {c.partition('/')[0]}".strip() for c, n in nodes.items())
            for layers, nodes in rated.stages(row)
        )
        axes.text(8, place, stages, va="center", fontsize=6, color="white")
        print(f"{name:26} {efficiency:8,.0f}  {rated.units_per_s[row]:9,.0f} tokens/s  {stages}")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * max(float(rated.units_per_s_per_usd[row]) for _, row, _ in bars))
    axes.set_xlabel("prompt tokens/s for one $/h")
    axes.set_title("Qwen3-235B prefill, 1,800 ms: the most for the money (layers: nodes)", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_frontier(axes: "Axes", rated: RatedSets, folder: Path | None) -> None:
    """What one replica of so many tokens/s costs at least."""
    pure = rated.kinds == 1
    curves = {"one GPU type": (_frontier(rated, pure), PURE), "any": (_frontier(rated, np.ones_like(pure)), MIXED)}
    for name, ((tokens, usd), colour) in curves.items():
        axes.step(tokens / 1000, usd, where="pre", color=colour, label=name)
    ours, theirs = curves["any"][0], curves["one GPU type"][0]
    at = np.searchsorted(ours[0], theirs[0])
    saved = 1 - ours[1][np.minimum(at, len(ours[1]) - 1)] / theirs[1]
    most = int(saved.argmax())
    print(
        f"One replica of {theirs[0][most]:,.0f} tokens/s: {theirs[1][most]:.2f} $/h of one GPU type, "
        f"{100 * saved[most]:.0f} % less of any\n"
    )
    axes.set_xlim(0, 160)
    axes.set_ylim(0, 140)
    axes.set_xlabel("thousand prompt tokens/s of one replica, at least")
    axes.set_ylabel("$/h")
    axes.set_title("What a replica of a given size costs at least", fontsize=9)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    if folder is not None:
        _save(folder / "figure-1a.csv", {name: curve for name, (curve, _) in curves.items()}, "tokens_per_s", "usd")


def _frontier(rated: RatedSets, among: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(tokens/s ascending, least $/h for at least as many)."""
    rows = np.flatnonzero(among)
    rows = rows[np.argsort(rated.units_per_s[rows], kind="stable")]
    least = np.minimum.accumulate(rated.usd_per_hour[rows][::-1])[::-1]
    return rated.units_per_s[rows], least


def _draw_steps(axes: "Axes", rated: RatedSets, folder: Path | None) -> None:
    """Figure 1b: which throughputs there are at all, and how far the next one is."""
    pure = rated.kinds == 1
    top = float(rated.units_per_s.max())
    curves = {}
    for name, among, colour in (("one GPU type", pure, PURE), ("mixed", ~pure, MIXED)):
        levels = np.unique(np.round(rated.units_per_s[among] / top, 6))
        share = np.arange(1, len(levels) + 1) / len(levels)
        curves[name] = levels, share
        axes.step(levels, share, where="post", color=colour, label=f"{name}: {len(levels):,} throughputs")
        over = 100 * _spare(levels)
        print(
            f"Figure 1b: decode of gpt-oss-120B, {name}: {len(levels):,} throughputs, {over:.2f} % more than asked for"
        )
    print()
    axes.set_xlabel(f"output tokens/s of one replica, over the most of all ({top:,.0f})")
    axes.set_ylabel("share of the throughputs that there are")
    axes.set_title("gpt-oss-120B decode, 40 ms: one GPU type leaves gaps that mixing fills", fontsize=9)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    if folder is not None:
        _save(folder / "figure-1b.csv", curves, "normalised_tokens_per_s", "share")


def _spare(levels: NDArray[np.float64]) -> float:
    """What the least throughput that is enough has to spare, in the mean over demands up to half the most."""
    demands = np.linspace(0.005, 0.5, 1000)
    enough = levels[np.searchsorted(levels, demands)]
    return float(np.mean(enough / demands - 1))


def _save(path: Path, curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]], *columns: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["curve", *columns])
        for name, points in curves.items():
            writer.writerows([name, f"{x:.6g}", f"{y:.6g}"] for x, y in zip(*points, strict=True))
