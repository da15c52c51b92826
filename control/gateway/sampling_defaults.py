"""How tokens are chosen where a request does not say: as its model's own files have it, else as OpenAI does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from agents.messages.to_scheduler import Sampling


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 is all."""


PLAIN = SamplingDefaults()


@dataclass(frozen=True, slots=True)
class AskedSampling:
    """What a request says; None: nothing."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    seed: int
    top_logprobs: int | None

    def of_model(self, defaults: SamplingDefaults) -> Sampling:
        return Sampling(
            temperature=defaults.temperature if self.temperature is None else self.temperature,
            top_p=defaults.top_p if self.top_p is None else self.top_p,
            top_k=defaults.top_k if self.top_k is None else self.top_k,
            seed=self.seed,
            top_logprobs=self.top_logprobs,
        )


def sampling_defaults(config: Mapping[str, Any]) -> SamplingDefaults:
    """Read `generation_config.json`, of which vLLM takes the same keys. A value that no request may have counts as
    absent: a model is not refused for it."""
    temperature, top_p, top_k = (config.get(name) for name in ("temperature", "top_p", "top_k"))
    return SamplingDefaults(
        float(temperature) if _is_number(temperature) and 0 <= temperature <= 2 else PLAIN.temperature,
        float(top_p) if _is_number(top_p) and 0 < top_p <= 1 else PLAIN.top_p,
        int(top_k) if _is_number(top_k) and 0 <= top_k < 1 << 24 else PLAIN.top_k,
    )


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
