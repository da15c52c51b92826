"""Utilisation caps follow how far step times may be off.

A template is certified at the step times that are likeliest. Where they are off by their median error x, it sustains
1 / (1 + x) of that, so a plan uses this share of its certificate beside the cap for queueing: with `margin` m,
1 / (1 + m · x). Errors are about as often too fast as too slow, so with m = 1 one template in four is still slower than
planned, with m = 0 one in two. x is the error of the time to the first token for prompts, that of the time per token
for decodes, and the larger of both where an instance does both; over several GPUs the largest counts.
"""

from control.planning.cost_models import cost_models_of
from control.planning.recipe import TimedRecipe
from control.planning.step_time_bases import step_time_basis
from templates_lib.values.step_time_basis import StepTimeBasis
from templates_lib.values.work import Phase

DIGITS = 4
"""More would tell snapshots apart that are not."""


def step_time_margins(recipe: TimedRecipe, margin: float) -> dict[str, dict[str, float]]:
    """Work class id → node configuration → factor of the utilisation cap, where it is below 1. Of several engines of a
    model the one that is known least counts."""
    found: dict[str, dict[str, float]] = {}
    if not margin:
        return found
    models = cost_models_of(recipe)
    for served, nodes in (each for whole in recipe.served for each in recipe.by_engine(whole)):
        for node in nodes:
            basis = step_time_basis(models[served.engine], served.model, node, served.engine)
            for phase in served.phases:
                factor = round(1 / (1 + margin * _error(basis, phase)), DIGITS)
                of_class = found.setdefault(served.class_id(phase), {})
                of_class[node.id] = min(factor, of_class.get(node.id, 1.0))
    below = {name: {node: own for node, own in of.items() if own < 1} for name, of in found.items()}
    return {name: of for name, of in below.items() if of}


def _error(basis: StepTimeBasis, phase: Phase) -> float:
    first, each = basis.ttft_error or 0.0, basis.tpot_error or 0.0
    return {Phase.PREFILL: first, Phase.DECODE: each}.get(phase, max(first, each))
