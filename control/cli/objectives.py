"""`medley objectives`: what a fleet costs under other latency objectives."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.options import DatabaseOption, SnapshotOption, SpecOption, TemplatesOption, one_of
from control.cli.output import Output, OutputOption, console, emit, refuse_unwritable, say

if TYPE_CHECKING:
    from control.cli.planning import PlanInContext
    from control.planning.objective_costs import Curve, ObjectiveCosts, Point, Said
    from control.planning.objectives import Objective
    from control.planning.session import PlanningSession

BANDS = "bands"
AXES = ("ttft", "tpot", "percentile", BANDS)
MOST_CURVES = 20


def objectives(
    file: SpecOption = None,
    snapshot: SnapshotOption = None,
    templates: TemplatesOption = None,
    axis: Annotated[
        str,
        one_of(AXES, "Objective that changes; bands: none, but where prompts are cut by length into two pools."),
    ] = AXES[0],
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model whose objective changes; give it again for more. Default: each in turn."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Values to look at, in ms or percent, with commas. Default: from half to twice today's. Of bands: the "
            "percent of the requests below a cut (default 50,80,95), beside half of the prompt tokens."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw cost against objective into a PNG.")] = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show what the fleet costs under other objectives.

    The fleet is planned once as it is, and once more for each value of each model: with the same demand, prices and
    supply, everything certified as ever. A value that no node can keep has no cost. With --axis bands objectives stay,
    and the prompts of a model are cut where its own workload says: the cheapest cut, or none, is named with the line
    for the spec.
    """
    from control.cli.planning import made_now
    from control.planning.objectives import Axis

    refuse_unwritable(plot)
    if axis == BANDS:
        from control.cli.prompt_cuts import show_cuts

        show_cuts(made_now(file, snapshot, templates, database_url), model, _numbers(at), plot, output)
        return
    values = Axis(axis).checked(_numbers(at))
    with made_now(file, snapshot, templates, database_url) as (opened, made):
        costs = costs_of(opened, made)
        curves = _curves(costs, made, axis, model, values)
    if plot is not None:
        from control.cli.objective_picture import save_curves

        save_curves(made.name, curves, made.plan.usd_per_hour, plot)
        say(f"medley: drew the costs in {plot}")
    if output is Output.TABLE:
        from control.cli.objective_table import print_curves

        print_curves(curves, made.plan.usd_per_hour, console())
        return
    emit(
        {
            "kind": "medley/objectives",
            "name": made.name,
            "plan": made.plan.id,
            "usd_per_hour": made.plan.usd_per_hour,
            "curves": curves,
        },
        output,
    )


def costs_of(opened: "PlanningSession", made: "PlanInContext") -> "ObjectiveCosts":
    """Raises ValueError for a plan of which nobody said how its templates are made."""
    from control.planning.objective_costs import ObjectiveCosts

    if made.recipe is None:
        raise ValueError(
            "other objectives need other templates, and a stored plan does not say how to make them: give its snapshot "
            "with --snapshot FILE (of `medley plan --save-snapshot FILE`), or plan again with -f SPEC"
        )
    return ObjectiveCosts(opened, made.recipe, made.snapshot, made.library)


def said_so(before_s: float) -> "Said":
    """Says what each plan costs. `before_s`: monotonic clock when the first one was begun."""

    def line(objective: "Objective", point: "Point", done: int, total: int) -> None:
        cost = "no template keeps it" if point.usd_per_hour is None else f"{point.usd_per_hour:,.2f} $/h"
        spent = time.monotonic() - before_s
        say(f"medley: {objective.text} {objective.axis.text(point.value)}: {cost} ({done} of {total}, {spent:.0f} s)")

    return line


def _curves(
    costs: "ObjectiveCosts", made: "PlanInContext", axis: str, models: list[str] | None, values: tuple[float, ...]
) -> list["Curve"]:
    from control.planning.objectives import Axis, Objective, models_of, now_of

    chosen = list(dict.fromkeys(models or models_of(costs.recipe)))
    asked = [Objective(name, Axis(axis)) for name in chosen]
    if len(asked) > MOST_CURVES:
        raise ValueError(f"{len(asked)} models are asked for: {MOST_CURVES} are the most; name them with --model")
    looked_at = [
        set(each.axis.checked(values) or each.axis.around(now_of(costs.recipe, each))) - {now_of(costs.recipe, each)}
        for each in asked
    ]
    say(f"medley: planning the fleet {sum(map(len, looked_at))} more times, under other objectives")
    said = said_so(time.monotonic())
    return [costs.curve(made.plan, each, values, said) for each in asked]


def _numbers(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--at {text!r}: give numbers with commas between, such as 800,1200,1600") from None
