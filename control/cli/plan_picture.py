"""A plan as a PNG: how the layers lie on the nodes, and what each model costs against the baselines."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from control.cli.cost_chart import costs
from control.cli.gpu_colours import GPU_COLOURS, OTHER
from control.cli.plan_document import stages
from control.cli.plan_table import against_cheapest
from control.planning.report import PlanReport, unmet_share
from templates_lib.sources.placement_kinds import gpu_executors
from templates_lib.values.install_hint import install_hint
from templates_lib.values.plan import PlannedInstance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40
"""Planned instances drawn; the most expensive first, the rest only counted."""
INCH_PER_ROW = 0.34


def save_picture(report: PlanReport, path: Path) -> None:
    """Raises ValueError with what to install when matplotlib is missing, OSError when `path` cannot be written."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(f"--plot needs matplotlib: {install_hint('plot')}") from None
    rows = min(len(report.plan.instances), MOST_ROWS)
    heights = [0.9 + INCH_PER_ROW * rows, 3.0]
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(11.0, sum(heights)), layout="constrained")
        fleet, cost = figure.subplots(2, 1, height_ratios=heights)
        figure.suptitle(_title(report), fontsize=12, fontweight="bold")
        _draw_fleet(fleet, report)
        _draw_costs(cost, report)
        figure.savefig(path, dpi=130, format="png")


def _title(report: PlanReport) -> str:
    title, verdict = f"{report.name}: {report.plan.usd_per_hour:,.2f} $/h", against_cheapest(report)
    return title if verdict is None else f"{title}, {verdict}"


def _draw_fleet(axes: "Axes", report: PlanReport) -> None:
    """One row for each planned instance."""
    from matplotlib.patches import Patch

    by_cost = sorted(report.plan.instances, key=lambda i: (-i.usd_per_hour, i.template_id, i.zone))
    shown = sorted(by_cost[:MOST_ROWS], key=lambda i: (i.model, i.phase, i.zone, i.template_id))
    colours: dict[str, str] = {}
    for row, instance in enumerate(shown):
        for left, width, gpus, label in _segments(instance):
            for gpu in gpus:
                colours.setdefault(gpu, GPU_COLOURS.get(gpu, OTHER))
            for peer, gpu in enumerate(gpus):
                height = 0.8 / len(gpus)
                bottom = row - 0.4 + peer * height
                axes.barh(bottom, width, height, left, align="edge", color=colours[gpu], edgecolor="white")
            axes.text(left + width / 2, row, label, ha="center", va="center", fontsize=7.5)
        axes.text(1.01, row, _right(instance, report), va="center", fontsize=8)
    axes.set_yticks(range(len(shown)), [f"{i.model} {i.phase}  {i.zone} {i.market.value}" for i in shown], fontsize=8)
    axes.set_xticks([])
    axes.set_xlim(0, 1)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
    left_out = len(report.plan.instances) - len(shown)
    axes.set_xlabel("layers of the model, first to last" + (f"; {left_out} cheaper rows left out" if left_out else ""))
    handles = [Patch(color=colour, label=gpu) for gpu, colour in colours.items()]
    if handles:
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), frameon=False)


def _segments(instance: PlannedInstance) -> Iterator[tuple[float, float, list[str], str]]:
    """Yield (left, width, GPUs one above the other, label) of each stage, as wide as its share of the model's layers;
    of each executor of components, as wide as its share of the node's GPUs."""
    placed = stages(instance)
    total = sum(s["last_layer"] - s["first_layer"] + 1 for s in placed)
    for stage in placed:
        width = (stage["last_layer"] - stage["first_layer"] + 1) / total
        text = " + ".join(f"{n['count']} x {n['config'].partition('/')[0]}" for n in stage["nodes"])
        layers = f"{stage['first_layer']}-{stage['last_layer']}"
        label = f"{text}  [{layers}]" if width * 100 > len(text) + len(layers) + 4 else layers
        yield stage["first_layer"] / total, width, [n["config"].partition(":")[0] for n in stage["nodes"]], label
    executors = gpu_executors(instance)
    devices, gpu = sum(len(e.devices) * e.gpus for e in executors), min(instance.nodes, default="").partition(":")[0]
    for each in executors:
        label = f"{len(each.devices)} x {'+'.join(each.components)}"
        yield each.devices[0][0] / devices, len(each.devices) * each.gpus / devices, [gpu], label


def _right(instance: PlannedInstance, report: PlanReport) -> str:
    tokens = report.tokens_per_s(instance)
    rate = "" if tokens is None else f"{tokens:,.0f} tok/s, "
    return f"{instance.count} x  {rate}{instance.usd_per_hour:,.2f} $/h"


def _draw_costs(axes: "Axes", report: PlanReport) -> None:
    by_fleet = costs(report)
    models = sorted({m for fleet in by_fleet.values() for m in fleet})
    width = 0.8 / len(by_fleet)
    for place, (fleet, cost) in enumerate(by_fleet.items()):
        short = unmet_share(report.fleets[fleet], report.snapshot)
        label = f"{fleet} {sum(cost.values()):,.2f} $/h" + (f", {short:.0%} unmet" if short > 1e-6 else "")
        positions = [i + (place - (len(by_fleet) - 1) / 2) * width for i in range(len(models))]
        bars = axes.bar(positions, [cost.get(m, 0.0) for m in models], width, label=label)
        axes.bar_label(bars, fmt="{:.3g}", fontsize=7, padding=1)
    axes.set_xticks(range(len(models)), models)
    axes.set_ylabel("$/h (rent and traffic)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
