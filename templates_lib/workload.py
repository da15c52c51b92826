"""The lengths of requests: joint prompt and output lengths of one kind of traffic."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadShape:
    """Equally likely (prompt, output) length pairs; what planning, load generation and simulation draw from."""

    id: str
    prompt_tokens: NDArray[np.int32]
    """(n,) ≥ 1"""
    output_tokens: NDArray[np.int32]
    """(n,) ≥ 1"""
    source: str = ""

    @property
    def mean_prompt_tokens(self) -> float:
        return float(self.prompt_tokens.mean())

    @property
    def mean_output_tokens(self) -> float:
        return float(self.output_tokens.mean())

    @property
    def prefill_context(self) -> float:
        """Mean number of earlier tokens that a prompt token attends to: E[P²] / 2E[P]."""
        prompt = self.prompt_tokens.astype(np.float64)
        return float((prompt * (prompt - 1)).sum() / (2 * prompt.sum()))

    @property
    def decode_context(self) -> float:
        """Mean tokens in the KV cache over all output tokens: E[P·O + O²/2] / E[O]."""
        prompt, output = self.prompt_tokens.astype(np.float64), self.output_tokens.astype(np.float64)
        return float((prompt * output + output * (output - 1) / 2).sum() / output.sum())

    def prompt_percentile(self, percentile: float) -> float:
        return float(np.percentile(self.prompt_tokens, percentile))
