"""What requests are counted in: units of work classes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policies.routing_table import RoutedModel
from templates_lib.values.work import Phase, Unit

REQUEST = "", Unit.INVOCATION
"""Work class and unit in which requests themselves are counted."""

_NOTHING: Mapping[Unit, float] = {}


@dataclass(frozen=True, slots=True)
class MeteredClass:
    work_class: str
    unit: Unit
    units_per_request: float
    """Units of a request as it was planned for."""

    @property
    def key(self) -> tuple[str, Unit]:
        return self.work_class, self.unit

    def units(
        self, requests: float, prompt_tokens: float, output_tokens: float, made: Mapping[Unit, float] = _NOTHING
    ) -> int:
        """Units of so many requests with so many tokens together, and with what was made for them of sound or pictures
        (`made`); of other units, those of mean requests."""
        counted = {Unit.PROMPT_TOKEN: prompt_tokens, Unit.OUTPUT_TOKEN: output_tokens, **made}
        return max(0, round(counted.get(self.unit, requests * self.units_per_request)))


def text_classes(app: str, prompt_tokens: float = 1.0, output_tokens: float = 1.0) -> tuple[MeteredClass, ...]:
    """Classes that text is counted in: prompts and answers apart, also where one instance does both, as the lengths of
    either may drift from those that were planned for. `prompt_tokens`, `output_tokens`: these."""
    return (
        MeteredClass(f"{app}/{Phase.PREFILL}", Unit.PROMPT_TOKEN, prompt_tokens),
        MeteredClass(f"{app}/{Phase.DECODE}", Unit.OUTPUT_TOKEN, output_tokens),
    )


def metered_classes(model: RoutedModel) -> Iterable[MeteredClass]:
    """Each class of the model's routes, once."""
    found: dict[str, MeteredClass] = {}
    for leg in (leg for route in model.routes for leg in route.legs):
        app, _, phase = leg.work_class.rpartition("/")
        text = text_classes(app) if phase == Phase.AGGREGATED else ()
        for each in text or (MeteredClass(leg.work_class, leg.unit, leg.units_per_request),):
            found[each.work_class] = each
    return found.values()
