"""`medley objectives --axis bands`: what a fleet costs with the prompts of a model cut by length."""

import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from control.cli.objectives import MOST_CURVES, costs_of
from control.cli.output import Output, console, emit, say, table
from control.cli.planning import PlanInContext
from control.planning.cut_costs import CutCurve, CutPoint, SaidCut, cut_curve, cuttable, line_of
from control.planning.prompt_cuts import PERCENTS, checked_percents, cuts_of
from control.planning.session import PlanningSession

BAR = 30


def show_cuts(
    made_now: AbstractContextManager[tuple[PlanningSession, PlanInContext]],
    models: list[str] | None,
    percents: tuple[float, ...],
    plot: Path | None,
    output: Output,
) -> None:
    """`percents`: none for the usual ones. Raises ValueError for models whose prompts cannot be cut."""
    asked = checked_percents(percents) or PERCENTS
    with made_now as (opened, made):
        costs = costs_of(opened, made)
        chosen = list(dict.fromkeys(models or cuttable(costs.recipe)))
        if not chosen:
            raise ValueError(
                f"{made.name}: no model of it promises a share of its requests (slo.keep: {{percentile: 99}}) and has "
                "prompts of more than one length: there is nothing to cut"
            )
        if len(chosen) > MOST_CURVES:
            raise ValueError(f"{len(chosen)} models are asked for: {MOST_CURVES} are the most; name them with --model")
        plans = sum(len(cuts_of(costs.recipe, model, asked)) - 1 for model in chosen)
        say(f"medley: planning the fleet {plans} more times, with prompts cut by length")
        said = said_of_cuts(time.monotonic())
        curves = [cut_curve(costs, made.plan, model, asked, said) for model in chosen]
    if plot is not None:
        from control.cli.cut_picture import save_cuts

        save_cuts(made.name, curves, made.plan.usd_per_hour, plot)
        say(f"medley: drew the costs in {plot}")
    if output is Output.TABLE:
        print_cuts(curves, made.plan.usd_per_hour, console())
        return
    head = {
        "kind": "medley/objectives",
        "name": made.name,
        "plan": made.plan.id,
        "usd_per_hour": made.plan.usd_per_hour,
    }
    emit(head | {"curves": [_document(curve) for curve in curves]}, output)


def said_of_cuts(before_s: float) -> SaidCut:
    """Says what each plan costs. `before_s`: monotonic clock when the first one was begun."""

    def line(model: str, point: CutPoint, done: int, total: int) -> None:
        cost = "no template keeps it" if point.usd_per_hour is None else f"{point.usd_per_hour:,.2f} $/h"
        spent = time.monotonic() - before_s
        say(f"medley: {model}: {_cut(point.value)}: {cost} ({done} of {total}, {spent:.0f} s)")

    return line


def print_cuts(curves: list[CutCurve], usd_per_hour: float, console: Console) -> None:
    """`usd_per_hour`: of the plan in force."""
    most = max((p.usd_per_hour or 0.0 for curve in curves for p in curve.points), default=0.0) or 1.0
    for curve in curves:
        right = ("requests above", "tokens above", "$/h", "change")
        shown = table(
            "cut at tokens", "below it", *right, "", "", right=right,
            title=f"{curve.model}: prompts cut by length, cost of the whole fleet",
        )  # fmt: skip
        for point in curve.points:
            is_now = point.value == curve.now
            cost, change, bar = "-", "", Text("")
            if point.usd_per_hour is not None:
                cost, change = f"{point.usd_per_hour:,.2f}", f"{point.usd_per_hour - usd_per_hour:+,.2f}"
                bar = Text("█" * round(BAR * point.usd_per_hour / most), style="cyan" if is_now else "bright_black")
            above = (f"{point.long_share:.1%}", f"{point.long_work:.1%}") if point.value else ("", "")
            shown.add_row(
                f"{f'{point.value:,}' if point.value else 'none'}{' (now)' if is_now else ''}", point.chosen, *above,
                cost, "" if is_now else change, bar, _note(point), style="bold" if is_now else "",
            )  # fmt: skip
        console.print(shown)
        for point in curve.points:
            if point.problem:
                console.print(Text(f"- {_cut(point.value)}: {point.problem}"), soft_wrap=True)
        console.print(Text(advice(curve)), soft_wrap=True)
        console.print()


def advice(curve: CutCurve) -> str:
    """Say which cut is the cheapest, with the line for the spec."""
    if curve.cheapest == curve.now:
        if not curve.now:
            return f"{curve.model}: no cut is the cheapest: leave slo.max_prompt_tokens out"
        return f"{curve.model}: the cut in force is the cheapest: leave {line_of(curve.now)} as it is"
    saves = f"{curve.saves_usd_per_hour:,.2f} $/h cheaper"
    if curve.saves_usd_per_hour <= 0:
        saves = "better, for it serves more, or keeps what the plan in force does not"
    if not curve.cheapest:
        return f"{curve.model}: no cut is {saves}: take {line_of(curve.now)} out of the spec"
    return f"{curve.model}: {_cut(curve.cheapest)} is {saves}: write {line_of(curve.cheapest)} into the spec"


def _document(curve: CutCurve) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(curve)
    return found | {"line": line_of(curve.cheapest), "advice": advice(curve)}


def _cut(tokens: int) -> str:
    return f"a cut at {tokens:,} tokens" if tokens else "no cut"


def _note(point: CutPoint) -> str:
    if point.problem:
        return "no template keeps it"
    unmet = f"{point.unmet_share:.1%} of the demand unmet" if point.unmet_share > 1e-6 else ""
    return "; ".join(filter(None, (unmet, "" if point.is_kept else "not kept in simulation")))
