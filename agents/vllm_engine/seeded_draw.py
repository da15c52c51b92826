"""Sampling as every engine of ours does it, in the form of a vLLM logits processor.

vLLM's own draw continues a generator that starts with the request, so that a request resumed on another instance would
get other tokens. Here the draw is made from (seed, position) before vLLM samples, and all other tokens are ruled out.
vLLM's own penalties come after its logits processors, and count what was made here alone: they are applied here too, to
all of the output, wherever it was made.
"""

from pathlib import Path
from typing import Any

import msgspec
import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from agents.engines.grammars import Vocabulary, vocabulary_of
from agents.engines.sampling import LogitRules, RuledText, Sampling
from agents.engines.torch_engine.logit_rules import RuledChoices
from agents.engines.torch_engine.sampler import drawn
from agents.messages import to_scheduler

ARGUMENT = "medley_draw"
"""Key in `SamplingParams.extra_args`: see `choice_arguments`. Greedy requests without rules have none."""


def choice_arguments(wanted: to_scheduler.Sampling, prompt_tokens: int) -> tuple[Any, ...]:
    """Return plain values, which vLLM passes on to its workers: temperature, top-p, top-k, seed; how many of the tokens
    that it is asked with are the prompt's; fields of the rules, or None."""
    rules = None if wanted.rules is None else msgspec.structs.astuple(wanted.rules)
    return wanted.temperature, wanted.top_p, wanted.top_k, wanted.seed, prompt_tokens, rules


class SeededDraw(AdapterLogitsProcessor):  # type: ignore[misc]  # vLLM is not where types are checked
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        model = vllm_config.model_config
        self._vocabulary = vocabulary_of(Path(model.model), model.get_vocab_size())

    def is_argmax_invariant(self) -> bool:
        """Return False: vLLM is told to be greedy, and takes the one token that is left."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Any:
        told = (params.extra_args or {}).get(ARGUMENT)
        if told is None:
            return None
        *draw, prompt_tokens, rules = told
        sampling = Sampling(*draw)
        return (
            _Draw(sampling)
            if rules is None
            else _RuledDraw(sampling, LogitRules(*rules), prompt_tokens, self._vocabulary)
        )


class _Draw:
    """Draw of one request's tokens."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling

    def __call__(self, asked: list[int], made: list[int], logits: torch.Tensor) -> torch.Tensor:
        """`logits` (vocabulary) of the token behind `asked` and `made`."""
        only = torch.full_like(logits, float("-inf"))
        only[drawn(logits, self._sampling, len(asked) + len(made))] = 0.0
        return only


class _RuledDraw:
    """The same of a request that has rules. vLLM says afterwards what was chosen: it is counted with the next token."""

    def __init__(
        self, sampling: Sampling, rules: LogitRules, prompt_tokens: int, vocabulary: Vocabulary | None
    ) -> None:
        self._sampling = sampling
        self._vocabulary = vocabulary
        self._rules = rules
        self._prompt_tokens = prompt_tokens
        self._choices: RuledChoices | None = None
        self._counted = 0
        """Tokens of `made` that are counted."""

    def __call__(self, asked: list[int], made: list[int], logits: torch.Tensor) -> torch.Tensor:
        choices, position = self._up_to(asked, made, logits.device), len(asked) + len(made)
        chances = choices.ruled(logits, position)
        if self._sampling.temperature == 0:
            return chances
        only = torch.full_like(logits, float("-inf"))
        only[drawn(chances, self._sampling, position, self._rules.min_p)] = 0.0
        return only

    def _up_to(self, asked: list[int], made: list[int], device: torch.device) -> RuledChoices:
        """Count what was made since the last token; all of it where vLLM has taken tokens back."""
        if self._choices is None or len(made) < self._counted:
            prompt = tuple(asked[: self._prompt_tokens]) if self._rules.counts_prompt else ()
            text = RuledText(self._rules, prompt, tuple(asked[self._prompt_tokens :]))
            self._choices, self._counted = RuledChoices(text, device, self._vocabulary), 0
        for token in made[self._counted :]:
            self._choices.add(token)
        self._counted = len(made)
        return self._choices
