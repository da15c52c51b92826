"""`medley explain`: why a plan is as it is."""

import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.options import DatabaseOption, SnapshotOption, SpecOption, TemplatesOption
from control.cli.output import Output, OutputOption, console, emit, say

if TYPE_CHECKING:
    from control.cli.planning import PlanInContext
    from control.planning.cut_costs import BetterCut
    from control.planning.objective_costs import Easier
    from control.planning.session import PlanningSession


def explain(
    plan: Annotated[
        str | None,
        typer.Argument(help="A plan's file, or the id of a stored plan (`medley plans list`).", metavar="[PLAN]"),
    ] = None,
    file: SpecOption = None,
    snapshot: SnapshotOption = None,
    templates: TemplatesOption = None,
    objectives: Annotated[
        bool,
        typer.Option(
            "--objectives",
            help="Say what easier objectives would save, and cutting prompts by length: some five more plans a model.",
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Say why a plan is as it is.

    Which limits bind, what one more node of each kind would save, what the runners-up cost, and what is missing where
    demand is not met; with --objectives, what easier objectives would save, or prompts that are cut by length into two
    pools. Explains PLAN, or a new plan for -f SPEC or --snapshot FILE. What it says is found by planning again, so it
    takes some ten times as long as the plan did.
    """
    import msgspec

    with _source(plan, file, snapshot, templates, database_url) as (opened, kept):
        say(f"medley: planning variants of plan {kept.plan.id[:12]} to compare it with")
        explanation = opened.explain(kept.plan, kept.snapshot, kept.library)
        certified = opened.certificates(kept.plan)
        cheaper = _cheaper(opened, kept) if objectives else None
    if output is Output.TABLE:
        from control.cli.explanation_text import print_explanation

        print_explanation(kept.name, kept.plan, explanation, certified, cheaper, console())
        return
    head = {"kind": "medley/explanation", "name": kept.name, "plan": kept.plan.id, "duals": kept.plan.duals}
    found = msgspec.to_builtins(explanation) | {"certificates": msgspec.to_builtins(certified)}
    if cheaper is not None:
        easier, cuts = cheaper
        found |= {"easier_objectives": msgspec.to_builtins(easier), "prompt_cuts": msgspec.to_builtins(cuts)}
    emit(head | found, output)


def _cheaper(opened: "PlanningSession", kept: "PlanInContext") -> "tuple[tuple[Easier, ...], tuple[BetterCut, ...]]":
    from control.cli.objectives import costs_of, said_so
    from control.cli.prompt_cuts import said_of_cuts
    from control.planning.cut_costs import better_cuts, cuttable

    costs = costs_of(opened, kept)
    say(f"medley: planning the fleet {len(tuple(costs.steps()))} more times, each with one objective a step easier")
    easier = costs.easier(kept.plan, said_so(time.monotonic()))
    if models := cuttable(costs.recipe):
        say(f"medley: planning the fleet {2 * len(models)} more times at most, with the prompts of a model cut")
    return easier, better_cuts(costs, kept.plan, said_of_cuts(time.monotonic()))


def _source(
    plan: str | None, file: Path | None, snapshot: Path | None, templates: Path | None, database_url: str | None
) -> "AbstractContextManager[tuple[PlanningSession, PlanInContext]]":
    from control.cli.planning import kept, made_now

    if plan is None:
        return made_now(file, snapshot, templates, database_url)
    if file is not None:
        raise ValueError("give either PLAN or -f SPEC")
    return kept(plan, snapshot, templates, database_url)
