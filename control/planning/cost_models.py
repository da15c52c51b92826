"""Step times for a recipe: measured where there is a profile, estimated elsewhere."""

from collections.abc import Iterator, Mapping

from control.planning.recipe import TimedRecipe
from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.chosen import unmeasured_cost_model
from templates_lib.cost.kernel_based import KERNELS
from templates_lib.cost.measured import MeasuredCostModel
from templates_lib.values.engines import estimate_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig


def gpus_of(recipe: TimedRecipe) -> dict[str, Gpu]:
    """Return GPUs by name: the catalogue's, and the recipe's own."""
    return load_gpus() | {gpu.name: gpu for gpu in recipe.gpus}


def cost_models_of(recipe: TimedRecipe) -> dict[str, MeasuredCostModel]:
    """Make the cost models by engine. Raises ValueError for an engine without an estimate."""
    gpus = gpus_of(recipe)
    return {
        e: MeasuredCostModel(e, recipe.profiles, unmeasured_cost_model(gpus, estimate_of(e), recipe.step_times))
        for e in recipe.engines
    }


def evidence_of(recipe: TimedRecipe) -> str:
    """`measured`, `estimated`, or which of both for which nodes; and where what is estimated rests on kernels."""
    models = cost_models_of(recipe)
    without = _without_profile(recipe, models)
    by_kernels = {node.gpu for s, node in without if models[s.engine].unmeasured_source(s.model, node) == KERNELS}
    estimated = f"estimated, of measured kernels on {', '.join(sorted(by_kernels))}" if by_kernels else "estimated"
    if len(without) == len(list(_timed(recipe))):
        return estimated
    names = ", ".join(sorted({f"{served.name} on {node.id}" for served, node in without}))
    return f"measured, but {estimated} for {names}" if names else "measured"


def how_to_measure(recipe: TimedRecipe) -> str:
    """Name the command to run where step times of this machine's nodes are estimated; empty where none are."""
    here = {gpu.name for gpu in recipe.gpus}
    if not any(node.gpu in here for _, node in _without_profile(recipe, cost_models_of(recipe))):
        return ""
    return (
        "step times of this machine's nodes are estimated: `medley profile run -f SPEC` measures them, and so does "
        "`medley up`"
    )


def _without_profile(
    recipe: TimedRecipe, models: Mapping[str, MeasuredCostModel]
) -> list[tuple[ServedModel, NodeConfig]]:
    return [
        (served, node) for served, node in _timed(recipe) if models[served.engine].profile(served.model, node) is None
    ]


def _timed(recipe: TimedRecipe) -> Iterator[tuple[ServedModel, NodeConfig]]:
    """Yield each model under each of its engines, with each node that it may be on."""
    return ((served, node) for whole in recipe.served for served, nodes in recipe.by_engine(whole) for node in nodes)
