"""Pipelines of a recipe's text models, and how long prompts take at them."""

from functools import cached_property

from control.planning.cost_models import cost_models_of
from control.planning.recipe import PipelineRecipe
from control.timing.pipeline_model import PipelineModel
from control.timing.prompt_times import prompt_times
from control.timing.template_model import TemplateModels
from policies.routing_table import PromptTimes
from templates_lib.sources.placement_kinds import unit_of
from templates_lib.values.template import ServingTemplate
from templates_lib.values.work import Phase


class TextPipelines:
    """Each is made once, in step times that are measured where the recipe has a profile and else estimated."""

    def __init__(self, recipe: PipelineRecipe) -> None:
        self._recipe = recipe
        self._times: dict[tuple[str, str], PromptTimes] = {}

    def pipeline(self, model: str, template: ServingTemplate, executor: str = "") -> PipelineModel:
        """Raises ValueError for what the recipe does not know."""
        by_engine = self._models[model]
        engines = (each.engine for each in unit_of(template).executors if executor in ("", each.id))
        # What others made, or an earlier release, may be of an engine that nothing is known of here.
        timed = by_engine.get(next(engines, ""), by_engine[next(iter(by_engine))])
        return timed.pipeline(template, executor)

    def prompt_times(self, work_class: str, template: ServingTemplate) -> PromptTimes | None:
        """Return the times of a class that computes prompts; None where it does not, or nothing is known of it: what
        runs may be on nodes that are not offered any more."""
        key = work_class, template.id
        model, _, phase = work_class.rpartition("/")
        if model not in self._models or phase not in (Phase.PREFILL, Phase.AGGREGATED):
            return None
        if key not in self._times:
            try:
                self._times[key] = prompt_times(self.pipeline(model, template), is_whole=phase == Phase.AGGREGATED)
            except ValueError:
                return None
        return self._times[key]

    @cached_property
    def _models(self) -> dict[str, dict[str, TemplateModels]]:
        """Served model → engine, its preferred one first → pipelines in its step times."""
        configs, cost_models = {node.id: node for node in self._recipe.nodes}, cost_models_of(self._recipe)
        return {
            served.name: {
                each.engine: TemplateModels(each.model, configs, cost_models[each.engine])
                for each in served.by_engine()
            }
            for served in self._recipe.served
        }
