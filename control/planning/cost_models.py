"""Step times for a recipe: measured where there is a profile, estimated elsewhere."""

from control.planning.recipe import PipelineRecipe
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.measured import MeasuredCostModel
from templates_lib.gpu import Gpu
from templates_lib.hardware import load_gpus


def gpus_of(recipe: PipelineRecipe) -> dict[str, Gpu]:
    """By name: the catalogue's, and the recipe's own."""
    return load_gpus() | {gpu.name: gpu for gpu in recipe.gpus}


def cost_models_of(recipe: PipelineRecipe) -> dict[str, MeasuredCostModel]:
    """By engine. Raises ValueError for an engine without an estimate."""
    gpus = gpus_of(recipe)
    engines = sorted({served.engine for served in recipe.served})
    return {e: MeasuredCostModel(e, recipe.profiles, estimated_cost_model(gpus, e)) for e in engines}


def evidence_of(recipe: PipelineRecipe) -> str:
    """`measured`, `estimated`, or which of both for which nodes."""
    models = cost_models_of(recipe)
    on: dict[bool, set[str]] = {True: set(), False: set()}
    for served in recipe.served:
        for node in recipe.nodes:
            on[models[served.engine].profile(served.model, node) is not None].add(f"{served.name} on {node.id}")
    if not on[True]:
        return "estimated"
    return f"measured, but estimated for {', '.join(sorted(on[False]))}" if on[False] else "measured"
