"""KV cache of one request of a shape, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from templates_lib.cost_model import Floats
from templates_lib.served_model import ServedModel
from templates_lib.throughput.worst_window import worst_sums

BLOCK_TOKENS = 16
"""Tokens of one KV cache block (vLLM's default); a request wastes half a block a layer on average."""


@dataclass(frozen=True, eq=False)
class RequestCache:
    """Bytes of KV cache that a request takes. All properties: (L,), entry j - 1 the worst j consecutive layers."""

    served: ServedModel

    @cached_property
    def decoding(self) -> Floats:
        """Mean over all decode steps: min(context, window) tokens a layer, and half a block."""
        return self._worst(self._decode_tokens, BLOCK_TOKENS / 2)

    @cached_property
    def prompt(self) -> Floats:
        """While the prompt is computed: every token in every layer, mean prompt."""
        return self._worst(lambda _: self.served.shape.mean_prompt_tokens, BLOCK_TOKENS / 2)

    @cached_property
    def handed(self) -> Floats:
        """What prefill hands to decode: the last min(prompt, window) tokens of each layer, mean prompt."""
        prompt = self.served.shape.prompt_tokens
        return self._worst(lambda w: float((prompt if w == 0 else prompt.clip(max=w)).mean()))

    @cached_property
    def handed_percentile(self) -> Floats:
        """The same for the prompt of the certified percentile."""
        prompt = self.served.shape.prompt_percentile(self.served.slo.percentile)
        return self._worst(lambda w: prompt if w == 0 else min(prompt, float(w)))

    def _worst(self, tokens_of_window: Callable[[int], float], extra_tokens: float = 0.0) -> Floats:
        model = self.served.model
        tokens = {w: tokens_of_window(w) + extra_tokens for w in set(model.windows)}
        return worst_sums(np.array([tokens[w] for w in model.windows]) * model.kv_bytes_per_token_per_layer)

    def _decode_tokens(self, window: int) -> float:
        shape = self.served.shape
        if window == 0:
            return shape.decode_context
        prompt, output = shape.prompt_tokens.astype(np.float64), shape.output_tokens.astype(np.float64)
        growing = (window - prompt).clip(0, output)
        tokens = prompt * growing + growing * (growing - 1) / 2 + (output - growing) * window
        return float(tokens.sum() / output.sum())
