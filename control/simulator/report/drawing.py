"""Charts drawn by matplotlib: as PNG for files, as SVG for a page."""

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from control.simulator.report.chart import Chart, Kind, Line
from control.simulator.report.palette import LIGHT, Palette, marked, named
from templates_lib.values.install_hint import install_hint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PIXELS_PER_INCH = 72
_FINE = 2.5
"""Times as many pixels in a PNG."""
_DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)))
"""Dashes that tell lines apart beside their colours."""


class MissingPlotsError(ValueError):
    """matplotlib is not installed."""


def need_plots() -> None:
    """Raises MissingPlotsError with what to install, before any work is done for pictures."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingPlotsError(f"plots need matplotlib: {install_hint('simulate')}") from None


def png(chart: Chart) -> bytes:
    """Draw it with its title and legend, on white. Raises MissingPlotsError."""
    target = io.BytesIO()
    with _settings(LIGHT):
        figure = _figure(chart, LIGHT, (760, 380), whole=True)
        figure.savefig(target, dpi=_PIXELS_PER_INCH * _FINE, format="png")
    return target.getvalue()


def svg(chart: Chart, width_px: int, height_px: int) -> str:
    """To stand in a page: its colours are the page's (`palette.named`), its title and legend the page's business.

    Raises MissingPlotsError."""
    target, palette = io.StringIO(), marked()
    # One salt a picture: two of a page must not share the names of their clips.
    with _settings(palette, {"svg.fonttype": "none", "svg.hashsalt": f"{chart.id}-{width_px}"}):
        figure = _figure(chart, palette, (width_px, height_px), whole=False)
        figure.savefig(target, format="svg", metadata={"Date": None}, transparent=True)
    return named(_bare(target.getvalue(), chart))


def _bare(text: str, chart: Chart) -> str:
    """Without prologue, metadata and names that nothing refers to, and scaled by the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    label = f"{chart.title}, {chart.y_unit}".replace("&", "and").replace('"', "'").replace("<", "")
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


@contextmanager
def _settings(palette: Palette, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    need_plots()
    import matplotlib as mpl

    settings: Any = {
        "font.size": 11, "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "text.color": palette.ink,
        "axes.edgecolor": palette.grid, "axes.labelcolor": palette.muted, "axes.facecolor": "none",
        "xtick.color": palette.muted, "ytick.color": palette.muted, "grid.color": palette.grid,
        "figure.facecolor": palette.paper, "savefig.facecolor": palette.paper,
    }  # fmt: skip
    with mpl.rc_context(settings | dict(more)):
        yield


def _figure(chart: Chart, palette: Palette, pixels: tuple[int, int], *, whole: bool) -> "Figure":
    from matplotlib.figure import Figure

    size = pixels[0] / _PIXELS_PER_INCH, pixels[1] / _PIXELS_PER_INCH
    figure = Figure(size, layout="constrained")
    axes = figure.subplots()
    _draw(axes, chart, palette)
    if whole:
        axes.set_title(chart.title, loc="left", fontweight="bold")
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower center", ncols=min(len(chart.lines), 4), frameon=False, fontsize=10)
    return figure


def _draw(axes: "Axes", chart: Chart, palette: Palette) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="both" if chart.kind is Kind.CURVE else "y", linewidth=0.8)
    axes.tick_params(length=0)
    axes.set_axisbelow(True)
    axes.set_xlabel(chart.x_unit)
    axes.set_ylabel(chart.y_unit)
    if not any(len(line.y) for line in chart.lines):
        axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", color=palette.muted)
        return
    if chart.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_plain)
        axes.xaxis.set_minor_formatter(lambda _value, _position: "")
    below: Any = 0.0
    for n, line in enumerate(chart.lines):
        colour, dash = palette.lines[n % len(palette.lines)], _DASHES[n % len(_DASHES)]
        if chart.kind is Kind.STACK:
            above = below + np.nan_to_num(line.y)
            axes.stairs(above, line.x, baseline=below, fill=True, color=colour, label=line.name, linewidth=0)
            below = above
        elif chart.kind is Kind.STEPS:
            axes.stairs(line.y, line.x, baseline=None, color=colour, label=line.name, linewidth=1.8, linestyle=dash)
        else:
            axes.plot(line.x, line.y, color=colour, label=line.name, linewidth=1.8, linestyle=dash)
    _limits(axes, chart, palette)
    if chart.level is not None:
        axes.axhline(chart.level, color=palette.ink, linewidth=1.0, linestyle=(0, (3, 2)))
    axes.set_ylim(0, chart.top if chart.top is not None else max(axes.get_ylim()[1] * 1.04, 1e-9))
    if chart.kind is not Kind.CURVE:
        axes.set_xlim(chart.lines[0].x[0], chart.lines[0].x[-1])


def _limits(axes: "Axes", chart: Chart, palette: Palette) -> None:
    """Objectives: one line across for all where they are the same, else each in the colour of its own."""
    limited: list[tuple[int, Line]] = [(n, line) for n, line in enumerate(chart.lines) if line.limit is not None]
    shared = len({line.limit for _, line in limited}) == 1
    for n, line in limited[:1] if shared else limited:
        colour = palette.ink if shared else palette.lines[n % len(palette.lines)]
        assert line.limit is not None  # noqa: S101 - chosen above
        axes.axvline(line.limit, color=colour, linewidth=1.0, linestyle=(0, (3, 2)))


def _plain(value: float, _position: float) -> str:
    return f"{value:g}"
