"""What each executor of an app's templates sustains, as its templates were made of it."""

from collections.abc import Mapping

from control.planning.graph_sources import app_works
from control.planning.recipe import Recipe
from templates_lib.sources.placement_kinds import executors_of
from templates_lib.values.template import ServingTemplate


class ExecutorRates:
    """Of the apps of a recipe. Nothing is reckoned before it is asked for."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._found: dict[str, dict[str, Mapping[str, float]]] = {}

    def of(self, template: ServingTemplate) -> Mapping[str, Mapping[str, float]]:
        """Executor → work class → units per second, when it does nothing else. Executors are not there that serve a
        model by layers, or that the app's nodes do not make (any more)."""
        if template.id not in self._found:
            self._found[template.id] = self._made(template)
        return self._found[template.id]

    def _made(self, template: ServingTemplate) -> dict[str, Mapping[str, float]]:
        parts = [(each, each.graph) for each in executors_of(template) or () if each.graph is not None]
        work = app_works(self._recipe).get(parts[0][0].component) if parts else None
        if work is None:
            return {}
        nodes, found = {node.id: node for node in work.nodes}, dict[str, Mapping[str, float]]()
        for executor, part in parts:
            for replica in work.replicas(nodes[part.config]) if part.config in nodes else ():
                if (replica.option.components, replica.option.gpus) == (part.components, len(executor.share.devices)):
                    found[executor.id] = replica.units_per_s
        return found
