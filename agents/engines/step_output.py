"""Output of one step of an engine."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled token. Log probabilities are natural, of the model's own distribution before temperature and cuts."""

    request_id: str
    token_id: int
    stop: bool
    """The token is one of the request's stop token ids."""
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()
    """The likeliest (token id, log probability), best first, as many as were asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class StepOutput:
    """`hidden` before the last stage; `samples` and, where requests asked for them, `rows` on the last."""

    hidden: torch.Tensor | None = None
    """(tokens, hidden size), rows in the batch's order: the input of the next stage."""
    samples: tuple[Sample, ...] = ()
    """Of the requests that asked for one, in the batch's order. Of one with a draft, in turn: as many as tokens of it
    were right, and one more."""
    rows: torch.Tensor | None = None
    """(tokens, hidden size) behind the model's last norm: those of the requests that asked, in the batch's order."""
