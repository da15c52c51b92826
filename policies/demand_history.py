"""Load that was offered, step by step: what forecasts start from."""

from dataclasses import dataclass

import numpy as np

from policies.forecast import Rates


@dataclass(frozen=True, slots=True, eq=False)
class DemandHistory:
    """Load of one request type, over all gateways, the oldest step first. Raises ValueError when lengths differ."""

    end_s: float
    """End of the last step, Unix seconds."""
    step_s: float
    requests_per_s: Rates
    """(n,), as are the other two; n may be 0."""
    prompt_tokens_per_s: Rates
    output_tokens_per_s: Rates

    def __post_init__(self) -> None:
        if not self.requests_per_s.shape == self.prompt_tokens_per_s.shape == self.output_tokens_per_s.shape:
            raise ValueError("a history has one rate a step of each kind")

    def planned_requests_per_s(self, mean_prompt_tokens: float, mean_output_tokens: float) -> Rates:
        """(n,) requests of the planned lengths that would be as much work, of prompts or of outputs, whichever is more:
        lengths that have drifted must not leave either phase short."""
        prompt = self.prompt_tokens_per_s / mean_prompt_tokens
        return np.maximum(prompt, self.output_tokens_per_s / mean_output_tokens)
