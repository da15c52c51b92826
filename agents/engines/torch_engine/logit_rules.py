"""Changes logits by the rules of a request, as vLLM does (`vllm/v1/sample/sampler.py`, `Sampler.forward`)."""

import math

import torch

from agents.engines.batch import StepBatch
from agents.engines.errors import BadBatchError
from agents.engines.grammars import GrammarState, Vocabulary
from agents.engines.sampling import RuledText
from agents.engines.torch_engine.token_counts import TokenCounts


class RuledChoices:
    """Rules of one request, and what they count."""

    def __init__(self, text: RuledText, device: torch.device, vocabulary: Vocabulary | None) -> None:
        """`vocabulary`: needed for a grammar. Raises BadBatchError where there is a grammar and none is known."""
        self.rules = rules = text.rules
        if rules.grammar and vocabulary is None:
            raise BadBatchError("there is a grammar to obey, and the model's tokens are not known as text here")
        self._grammar: GrammarState | None = None
        if rules.grammar and vocabulary is not None:
            self._grammar = GrammarState(vocabulary, rules.grammar, text.output, rules.grammar_ends)
        self._counts = TokenCounts(text.prompt, text.output, device) if rules.counts_tokens else None
        self._bias_ids = torch.tensor([token for token, _ in rules.bias], dtype=torch.int64, device=device)
        self._bias = torch.tensor([value for _, value in rules.bias], device=device)

    def ruled(self, logits: torch.Tensor, position: int) -> torch.Tensor:
        """Return what a token at `position` of prompt and output is chosen from, in place of `logits` (vocabulary)
        fp32, which stays as it is."""
        logits = logits.clone()
        if len(self._bias):
            logits[self._bias_ids] += self._bias
        if position < self.rules.withheld_until:
            known = [token for token in self.rules.withheld if token < len(logits)]  # some checkpoints name others
            logits[torch.tensor(known, dtype=torch.int64, device=logits.device)] = -math.inf
        if self._counts is not None:
            self._counts.penalise(logits, self.rules)
        if self._grammar is not None:
            logits.masked_fill_(~self._grammar.allowed.to(logits.device), -math.inf)
        return logits

    def add(self, token: int) -> None:
        """Count a token that was chosen."""
        if self._counts is not None:
            self._counts.add(token)
        if self._grammar is not None:
            self._grammar.add(token)


class RuledRequests:
    """Requests of an engine that have rules."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        """`vocabulary`: of the model; None: no grammar can be obeyed."""
        self._vocabulary = vocabulary
        self._of: dict[str, RuledChoices] = {}

    def begin(self, batch: StepBatch, device: torch.device) -> None:
        """Take in the rules that a step brings. Raises BadBatchError, as `RuledChoices` does."""
        for request in batch.requests:
            if request.ruled is not None:
                self._of[request.id] = RuledChoices(request.ruled, device, self._vocabulary)

    def get(self, request_id: str) -> RuledChoices | None:
        return self._of.get(request_id)

    def forget(self, request_id: str) -> None:
        self._of.pop(request_id, None)


def without_unlikely(scaled: torch.Tensor, min_p: float) -> torch.Tensor:
    """Rule out tokens less likely than `min_p` of the likeliest one. `scaled`: logits over temperature."""
    return scaled.masked_fill(scaled < scaled.max() + math.log(min_p), -math.inf) if min_p > 0 else scaled
