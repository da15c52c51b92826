"""How a fleet's models are reached, as it follows from what is ready."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.channels.dialer import Address
from control.fleet.wanted import Wanted
from control.gateway.published import Hold, ServedModel
from control.hub.gang import placed_gang
from policies.routing_table import PREFILL, WHOLE, RoutedInstance, RoutedModel, ZoneFlow
from templates_lib.apps.served_model import ServedModel as PlannedModel
from templates_lib.values.plan import Plan


@dataclass(frozen=True, slots=True)
class Front:
    """What the gateway needs of a model beside its instances."""

    tokenizer: str
    """Path of a GGUF file, or of a directory with tokenizer.json."""
    created: int
    """Unix seconds."""
    fleet: str = ""
    """Whose demand its requests are."""
    hold: Hold | None = None
    """What becomes of requests while nothing serves it; None: they are refused."""
    longer: str = ""
    """Another model of the table, which serves longer prompts than this one's objective speaks of."""


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """What does not change while a plan is kept."""

    plan: Plan
    models: Mapping[str, PlannedModel]
    """By the name that clients use."""
    fronts: Mapping[str, Front]

    def served(self, ready: Iterable[tuple[str, Wanted, Address]]) -> tuple[ServedModel, ...]:
        """`ready`: instance, what it is, where its scheduler is. A model without instances is there and refused."""
        there = [(instance, wanted) for instance, wanted, _ in ready]
        served = []
        for routed in self.routed(there):
            name, model, front = routed.id, self.models[routed.id], self.fronts[routed.id]
            served.append(
                ServedModel(
                    routed,
                    front.tokenizer,
                    self._context_tokens(name, there),
                    front.created,
                    mean_output_tokens=model.shape.mean_output_tokens,
                    fleet=front.fleet,
                    hold=front.hold,
                    max_prompt_tokens=model.slo.max_prompt_tokens,
                    longer=front.longer,
                )
            )
        return tuple(served)

    def routed(self, ready: Iterable[tuple[str, Wanted]]) -> tuple[RoutedModel, ...]:
        """What routers see of it: every model, with those of `ready` that serve it and the flows that they allow."""
        there = list(ready)
        models = []
        for name in self.models:
            instances = tuple(self._instance(i, w) for i, w in there if w.model == name)
            zones = {(i.leg, i.zone) for i in instances}
            flows = tuple(
                ZoneFlow(f.zones, f.requests_per_s)
                for f in self.plan.flows
                if self._is_of(f.route, name) and all(f.zones) and f.requests_per_s > 0
                if all((leg, zone) in zones for leg, zone in zip(_legs(f.zones), f.zones, strict=True))
            )
            models.append(RoutedModel(name, instances, flows))
        return tuple(models)

    def _instance(self, instance: str, wanted: Wanted) -> RoutedInstance:
        shape = self.models[wanted.model].shape
        if wanted.leg == WHOLE:  # its unit is a request
            prompt, output = shape.mean_prompt_tokens, shape.mean_output_tokens
            return RoutedInstance(
                instance, wanted.zone, WHOLE, wanted.units_per_s * prompt, wanted.units_per_s * output
            )
        if wanted.leg == PREFILL:
            return RoutedInstance(instance, wanted.zone, PREFILL, prompt_tokens_per_s=wanted.units_per_s)
        return RoutedInstance(instance, wanted.zone, wanted.leg, output_tokens_per_s=wanted.units_per_s)

    def _context_tokens(self, name: str, there: Iterable[tuple[str, Wanted]]) -> int:
        """The model's, or what every instance of it has KV cache for: whichever answers a request can finish it, and
        take it over from another. A prefill leg keeps no answer."""
        templates = {w.template.id: w.template for _, w in there if w.model == name and w.leg != PREFILL}
        rooms = (placed_gang(template).most_tokens for template in templates.values())
        return min((self.models[name].model.max_context_tokens, *rooms))

    def _is_of(self, route: str, name: str) -> bool:
        return any(route == own.id for own in self.models[name].routes())


def _legs(zones: tuple[str, ...]) -> tuple[str, ...]:
    return ZoneFlow(zones, 1.0).legs
