"""How tokens are chosen where a request does not say: as its model's own files have it, else as OpenAI does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from agents.messages.to_scheduler import Bias, LogitRules, Sampling

_SEEDS = (1 << 62) - 1
_PLAIN_RULES = LogitRules()


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 is all."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0


PLAIN = SamplingDefaults()


@dataclass(frozen=True, slots=True)
class AskedSampling:
    """What a request says; None: nothing."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    seed: int
    top_logprobs: int | None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float | None = None
    min_p: float | None = None
    bias: tuple[Bias, ...] = ()
    min_tokens: int = 0
    grammar: str = ""
    """As of `LogitRules`."""

    @property
    def asks_rules(self) -> bool:
        """Whether it asks for what schedulers of the release before do not know."""
        counts = (self.presence_penalty, self.frequency_penalty, (self.repetition_penalty or 1.0) - 1.0)
        return any(counts) or bool(self.min_p or self.bias or self.min_tokens or self.grammar)

    def of_model(
        self, defaults: SamplingDefaults, choice: int = 0, stop_ids: tuple[int, ...] = (), prompt_tokens: int = 0
    ) -> Sampling:
        """`choice`: of several answers to one prompt, each has a seed of its own. `stop_ids`: tokens that end the
        answer, which do not come before `min_tokens`, nor before a grammar is fulfilled."""
        withheld = stop_ids if self.min_tokens else ()
        rules = LogitRules(
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=(
                defaults.repetition_penalty if self.repetition_penalty is None else self.repetition_penalty
            ),
            min_p=defaults.min_p if self.min_p is None else self.min_p,
            bias=self.bias,
            withheld=withheld,
            withheld_until=prompt_tokens + self.min_tokens if withheld else 0,
            grammar=self.grammar,
            grammar_ends=stop_ids if self.grammar else (),
        )
        return Sampling(
            temperature=defaults.temperature if self.temperature is None else self.temperature,
            top_p=defaults.top_p if self.top_p is None else self.top_p,
            top_k=defaults.top_k if self.top_k is None else self.top_k,
            seed=(self.seed + choice) & _SEEDS,
            top_logprobs=self.top_logprobs,
            rules=None if rules == _PLAIN_RULES else rules,
        )


def sampling_defaults(config: Mapping[str, Any]) -> SamplingDefaults:
    """Read `generation_config.json`, of which vLLM takes the same keys. A value that no request may have counts as
    absent: a model is not refused for it."""
    temperature, top_p, top_k = (config.get(name) for name in ("temperature", "top_p", "top_k"))
    min_p, repetition_penalty = config.get("min_p"), config.get("repetition_penalty")
    return SamplingDefaults(
        float(temperature) if _is_number(temperature) and 0 <= temperature <= 2 else PLAIN.temperature,
        float(top_p) if _is_number(top_p) and 0 < top_p <= 1 else PLAIN.top_p,
        int(top_k) if _is_number(top_k) and 0 <= top_k < 1 << 24 else PLAIN.top_k,
        float(min_p) if _is_number(min_p) and 0 <= min_p <= 1 else PLAIN.min_p,
        float(repetition_penalty)
        if _is_number(repetition_penalty) and 0 < repetition_penalty <= 100
        else PLAIN.repetition_penalty,
    )


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
