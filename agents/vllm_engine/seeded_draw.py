"""Sampling as every engine of ours does it, in the form of a vLLM logits processor.

vLLM's own draw continues a generator that starts with the request, so that a request resumed on another instance would
get other tokens. Here the draw is made from (seed, position) before vLLM samples, and all other tokens are ruled out.
"""

from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from agents.engines.sampling import Sampling
from agents.engines.torch_engine.sampler import drawn

ARGUMENT = "medley_draw"
"""Key in `SamplingParams.extra_args`: (temperature, top_p, top_k, seed). Greedy requests have none."""


class SeededDraw(AdapterLogitsProcessor):  # type: ignore[misc]  # vLLM is not where types are checked
    def is_argmax_invariant(self) -> bool:
        """Return False: vLLM is told to be greedy, and takes the one token that is left."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Any:
        told = (params.extra_args or {}).get(ARGUMENT)
        return None if told is None else _Draw(Sampling(*told))


class _Draw:
    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling

    def __call__(self, asked: list[int], made: list[int], logits: torch.Tensor) -> torch.Tensor:
        """`logits` (vocabulary) of the token behind `asked` and `made`."""
        only = torch.full_like(logits, float("-inf"))
        only[drawn(logits, self._sampling, len(asked) + len(made))] = 0.0
        return only
