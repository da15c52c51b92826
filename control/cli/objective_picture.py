"""Cost against objective as a PNG, one line a model."""

from math import log10
from pathlib import Path
from typing import TYPE_CHECKING

from control.planning.objective_costs import Curve, Point
from control.planning.objectives import Axis
from templates_lib.values.install_hint import install_hint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {
    Axis.TTFT: "time to first token that is promised, s",
    Axis.TPOT: "time per output token that is promised, ms",
    Axis.PERCENTILE: "percentile that is promised, % of the requests (easier to the right)",
}


def save_curves(name: str, curves: list[Curve], usd_per_hour: float, path: Path) -> None:
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
        axes.set_title(f"{name}: {usd_per_hour:,.2f} $/h under the objectives in force", fontsize=11, fontweight="bold")
        _draw(axes, curves, usd_per_hour)
        figure.savefig(path, dpi=130, format="png")


def _draw(axes: "Axes", curves: list[Curve], usd_per_hour: float) -> None:
    axis = curves[0].axis
    axes.axhline(usd_per_hour, color="0.8", linewidth=1, zorder=0)
    for curve in curves:
        priced = [point for point in curve.points if point.usd_per_hour is not None]
        line = axes.plot(
            [_place(axis, p.value) for p in priced], [_usd(p) for p in priced], linewidth=1.8, label=curve.model
        )
        colour = line[0].get_color()
        for point in priced:
            is_now, good = point.value == curve.now, point.is_kept and point.unmet_share <= 1e-6
            axes.plot(
                _place(axis, point.value), _usd(point), "o", markersize=9 if is_now else 5, color=colour,
                markerfacecolor=colour if good else "white", markeredgecolor="black" if is_now else colour,
                zorder=4 if is_now else 3,
            )  # fmt: skip
        for point in curve.points:
            if point.usd_per_hour is None:
                axes.plot(_place(axis, point.value), 0.03, "x", color=colour, transform=axes.get_xaxis_transform())
    _legend(axes, curves)
    _scale(axes, axis, curves)


def _legend(axes: "Axes", curves: list[Curve]) -> None:
    points = [point for curve in curves for point in curve.points]
    marks = [("o", "objective in force", {"markeredgecolor": "black", "markersize": 9})]
    if any(p.usd_per_hour is not None and (not p.is_kept or p.unmet_share > 1e-6) for p in points):
        marks.append(("o", "not kept, or demand unmet", {"markerfacecolor": "white"}))
    if any(p.usd_per_hour is None for p in points):
        marks.append(("x", "no node keeps it", {}))
    for mark, label, look in marks:
        axes.plot([], [], mark, color="0.5", label=label, **look)  # type: ignore[arg-type]
    axes.legend(frameon=False)


def _scale(axes: "Axes", axis: Axis, curves: list[Curve]) -> None:
    axes.set_xlabel(_NAMES[axis])
    axes.set_ylabel("cost of the whole fleet, $/h")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    if axis is Axis.PERCENTILE:
        values = sorted({point.value for curve in curves for point in curve.points}, reverse=True)
        axes.set_xticks([_place(axis, value) for value in values], [f"{value:g}" for value in values])
    else:
        axes.set_xlim(left=0)


def _place(axis: Axis, value: float) -> float:
    """Seconds or ms; of percentiles, the decades of the share that may be late: 99.9 is as far from 99 as 99 from
    90."""
    if axis is Axis.PERCENTILE:
        return log10(100 - value)
    return value / 1000 if axis is Axis.TTFT else value


def _usd(point: Point) -> float:
    assert point.usd_per_hour is not None  # noqa: S101
    return point.usd_per_hour
