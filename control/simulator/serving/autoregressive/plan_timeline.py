"""A plan as a timeline: everything it wants is there from the start and stays."""

from dataclasses import replace

from agents.messages.to_scheduler import Leg
from control.diff.target import Target, targets
from control.fleet.routing import Routing, gateway_model
from control.planning.cost_models import cost_models_of
from control.planning.recipe import PipelineRecipe
from control.simulator.serving.autoregressive.pipeline_model import PipelineModel
from control.simulator.serving.autoregressive.prompt_times import prompt_times
from control.simulator.serving.autoregressive.template_model import TemplateModels
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.zoneless_flows import anywhere
from policies.routing_table import RoutedInstance
from templates_lib.values.plan import Plan


class RecipePipelines:
    """What instances of a recipe's templates cost in time, by what a plan wants: measured where the recipe has a
    profile, else estimated."""

    def __init__(self, recipe: PipelineRecipe) -> None:
        configs, cost_models = {node.id: node for node in recipe.nodes}, cost_models_of(recipe)
        self._by_model = {
            served.name: TemplateModels(served.model, configs, cost_models[served.engine]) for served in recipe.served
        }

    def pipeline(self, wanted: Target) -> PipelineModel:
        """Raises ValueError for a model or configuration that the recipe has not."""
        if wanted.model not in self._by_model:
            raise ValueError(f"plan {wanted.plan_id} wants {wanted.model!r}, which the recipe does not serve")
        return self._by_model[wanted.model].pipeline(wanted.template)


def life_of(name: str, wanted: Target, pipelines: RecipePipelines) -> InstanceLife:
    """One instance of what a plan wants, there for ever."""
    (work_class,) = wanted.classes
    leg = {"aggregated": Leg.WHOLE}.get(phase := work_class.rpartition("/")[2]) or Leg(phase)
    pipeline = pipelines.pipeline(wanted)
    return InstanceLife(name, wanted.model, leg.value, wanted.zone, pipeline, usd_per_hour=wanted.usd_per_hour)


def _timed(member: RoutedInstance, life: InstanceLife) -> RoutedInstance:
    if life.leg == Leg.DECODE or not isinstance(life.station, PipelineModel):
        return member
    return replace(member, times=prompt_times(life.station, life.leg), usd_per_hour=life.usd_per_hour)


def timeline_of_plan(plan: Plan, recipe: PipelineRecipe, length_s: float, dispatch: str = "wrr-v1") -> FleetTimeline:
    """`plan`: with placements (`PlannedInstance.with_template`). `dispatch`: a key of `ROUTING_POLICIES`. Raises
    ValueError where it has none, or the recipe does not know its models or configurations."""
    pipelines, served = RecipePipelines(recipe), {model.name: model for model in recipe.served}
    there: list[tuple[str, Target]] = []
    lives = []
    for number, each in enumerate(targets(plan)):
        for copy in range(each.count):
            name = f"{'+'.join(each.classes)}/{each.zone}/{number}.{copy}"
            there.append((name, each))
            lives.append(life_of(name, each, pipelines))
    models = Routing(plan, {name: gateway_model(model) for name, model in served.items()}).routed(there)
    by_id = {life.id: life for life in lives}
    models = tuple(
        replace(
            anywhere(model, plan.flows),
            members=tuple(_timed(member, by_id[member.id]) for member in model.members),
            policy=dispatch,
            objective=served[model.id].slo,
        )
        for model in models
    )
    means = {name: model.shape.mean_output_tokens for name, model in served.items()}
    return FleetTimeline(tuple(lives), ((0.0, models),), length_s, means)
