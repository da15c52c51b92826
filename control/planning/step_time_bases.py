"""For each GPU of a plan, what its step times rest on and how far they may be off."""

from control.planning.cost_models import cost_models_of
from control.planning.recipe import PipelineRecipe, Recipe
from templates_lib.cost.kernel_based import KERNELS
from templates_lib.cost.kernel_tables import FRAMEWORKS
from templates_lib.cost.measured import MeasuredCostModel
from templates_lib.cost.step_time_errors import ALL, load_step_time_errors
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.engines import estimate_of
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.step_time_basis import StepTimeBasis


def step_time_bases(plan: Plan, recipe: Recipe | None) -> tuple[StepTimeBasis, ...]:
    """One for each GPU and engine of the plan's pipelines, and for each source where there are several. `plan`'s
    instances have their software."""
    pipelines = next((s for s in recipe.sources if isinstance(s, PipelineRecipe)), None) if recipe else None
    if pipelines is None:
        return ()
    models = cost_models_of(pipelines)
    nodes = {node.id: node for node in pipelines.nodes}
    found = {
        _basis(pipelines, models, instance, nodes[config])
        for instance in plan.instances
        for config in instance.nodes
        if config in nodes and instance.software is not None and instance.software.engine in models
    }
    return tuple(sorted(found, key=lambda each: (each.gpu, each.engine, each.source, each.ttft_error or 0.0)))


def _basis(
    recipe: PipelineRecipe, models: dict[str, MeasuredCostModel], instance: PlannedInstance, node: NodeConfig
) -> StepTimeBasis:
    engine = instance.software.engine if instance.software else ""
    versions = (each.under(engine) for each in recipe.served if each.is_component(instance.model))
    served = next((each.model for each in versions if each is not None), None)
    return step_time_basis(models[engine], served, node, engine)


def step_time_basis(times: MeasuredCostModel, model: ModelSpec | None, node: NodeConfig, engine: str) -> StepTimeBasis:
    """What the step times of `model` (None: of any) on `node` rest on; `times`: those of `engine`."""
    profile = times.profile(model, node) if model is not None else None
    if profile is not None:
        error = profile.errors.median
        return StepTimeBasis(node.gpu, engine, "measured", error, error, "steps", 0, engine)
    source = times.unmeasured_source(model, node) if model is not None else "estimated"
    as_engine = FRAMEWORKS.get(estimate_of(engine), estimate_of(engine))
    known = load_step_time_errors().engines.get(as_engine, {})
    for gpu, judged_on in ((node.gpu, node.gpu), (ALL, "other GPUs")):
        if gpu in known:
            held_out = known[gpu].kernels if source == KERNELS else known[gpu].estimated
            if (off := held_out.gpu_out).rows:
                return StepTimeBasis(node.gpu, engine, source, off.ttft, off.tpot, judged_on, off.rows, as_engine)
    return StepTimeBasis(node.gpu, engine, source, None, None, "", 0, "")
