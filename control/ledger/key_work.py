"""Work that one API key was served of one model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from templates_lib.values.work import Phase, Unit


@dataclass(frozen=True, slots=True)
class KeyWork:
    fleet: str
    model: str
    """As clients name it."""
    project: str
    """Empty: the gateway asks for no key."""
    key: str
    """Public part of the token; empty: use of the project that no gateway told by key."""
    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    units: Mapping[str, int] = field(default_factory=dict)
    """By work class of the model, tokens of prompts and answers among them."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    @property
    def is_empty(self) -> bool:
        return not (self.requests or any(self.units.values()))

    @property
    def is_text(self) -> bool:
        """Tell whether all that it was served are tokens of prompts and answers."""
        phases = {work_class.rpartition("/")[2] for work_class in self.units}
        return phases <= {Phase.PREFILL.value, Phase.DECODE.value}

    def with_units(self, work_class: str, unit: str, units: int) -> "KeyWork":
        """Add units of a work class; the empty one counts the requests themselves."""
        if not work_class:
            return replace(self, requests=self.requests + units)
        return replace(
            self,
            prompt_tokens=self.prompt_tokens + units * (unit == Unit.PROMPT_TOKEN),
            output_tokens=self.output_tokens + units * (unit == Unit.OUTPUT_TOKEN),
            units={**self.units, work_class: self.units.get(work_class, 0) + units},
        )

    def without(self, parts: Iterable["KeyWork"]) -> "KeyWork":
        """Take away what is known of its parts. Units of each are rounded by themselves: nothing is below 0."""
        left = dict(self.units)
        requests, prompt_tokens, output_tokens = self.requests, self.prompt_tokens, self.output_tokens
        for part in parts:
            requests -= part.requests
            prompt_tokens -= part.prompt_tokens
            output_tokens -= part.output_tokens
            for work_class, units in part.units.items():
                left[work_class] = left.get(work_class, 0) - units
        return replace(
            self,
            requests=max(0, requests),
            prompt_tokens=max(0, prompt_tokens),
            output_tokens=max(0, output_tokens),
            units={work_class: units for work_class, units in left.items() if units > 0},
        )
