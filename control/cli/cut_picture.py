"""Cost against the cut of prompts as a PNG, one line a model."""

from pathlib import Path
from typing import TYPE_CHECKING

from control.planning.cut_costs import CutCurve, CutPoint
from templates_lib.values.install_hint import install_hint

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_cuts(name: str, curves: list[CutCurve], usd_per_hour: float, path: Path) -> None:
    """`usd_per_hour`: of the plan in force. Raises ValueError with what to install when matplotlib is missing, OSError
    when `path` cannot be written."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(f"--plot needs matplotlib: {install_hint('plot')}") from None
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(8.5, 5.0), layout="constrained")
        axes = figure.subplots()
        axes.set_title(f"{name}: {usd_per_hour:,.2f} $/h with the cuts in force", fontsize=11, fontweight="bold")
        _draw(axes, curves, usd_per_hour)
        figure.savefig(path, dpi=130, format="png")


def _draw(axes: "Axes", curves: list[CutCurve], usd_per_hour: float) -> None:
    axes.axhline(usd_per_hour, color="0.8", linewidth=1, zorder=0)
    for curve in curves:
        # No cut is at the end of the line: everything is below it.
        priced = sorted((p for p in curve.points if p.usd_per_hour is not None), key=_requests_below)
        line = axes.plot(
            [_requests_below(p) for p in priced], [p.usd_per_hour or 0.0 for p in priced], linewidth=1.8,
            label=curve.model,
        )  # fmt: skip
        colour = line[0].get_color()
        for point in curve.points:
            if point.usd_per_hour is None:
                place = _requests_below(point), 0.03
                axes.plot(*place, "x", color=colour, transform=axes.get_xaxis_transform())
                continue
            is_now, good = point.value == curve.now, point.is_kept and point.unmet_share <= 1e-6
            axes.plot(
                _requests_below(point), point.usd_per_hour, "o", markersize=9 if is_now else 5, color=colour,
                markerfacecolor=colour if good else "white", markeredgecolor="black" if is_now else colour,
                zorder=4 if is_now else 3,
            )  # fmt: skip
            if point.value:
                axes.annotate(
                    f"{point.value:,}", (_requests_below(point), point.usd_per_hour), xytext=(0, 7),
                    textcoords="offset points", ha="center", fontsize=7, color=colour,
                )  # fmt: skip
    axes.plot([], [], "o", color="0.5", markeredgecolor="black", markersize=9, label="in force")
    axes.plot([], [], "o", color="0.5", markerfacecolor="white", label="not kept, or demand unmet")
    axes.plot([], [], "x", color="0.5", label="no node keeps it")
    axes.legend(frameon=False)
    axes.set_xlabel("requests below the cut, % (at 100: no cut); numbers: the longest prompt below it, tokens")
    axes.set_ylabel("cost of the whole fleet, $/h")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 103)
    axes.grid(axis="y", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)


def _requests_below(point: CutPoint) -> float:
    return 100 * (1 - point.long_share)
