"""KV cache of one request of a shape, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from templates_lib.apps.served_model import ServedModel
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Floats
from templates_lib.throughput.worst_window import worst_sums

BLOCK_TOKENS = 16
"""Tokens of one KV cache block (vLLM's default); a request wastes half a block a layer on average."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestCache:
    """Bytes of KV cache that a request takes. All (L,): entry j - 1 is the worst j consecutive layers.

    A layer with a window has blocks of all tokens reserved, as the scheduler counts them (`agents/scheduler`), though
    fewer are sent: what the engine leaves free of them is nobody's to use.
    """

    decoding: Floats
    """Mean over all decode steps: every token in every layer, and half a block."""
    prompt: Floats
    """Tokens while the mean prompt is computed or handed over: every token in every layer, and half a block."""
    prompt_percentile: Floats
    """The same for the prompt of the certified percentile."""
    handed: Floats
    """Tokens that prefill sends to decode: the last min(prompt, window) tokens of each layer, mean prompt."""
    handed_percentile: Floats
    """The same for the prompt of the certified percentile."""


def request_cache(served: ServedModel) -> RequestCache:
    model, shape = served.model, served.shape
    prompts = shape.prompt_tokens
    longest = shape.prompt_percentile(served.slo.percentile)
    wasted = BLOCK_TOKENS / 2
    return RequestCache(
        decoding=_worst(model, lambda _: shape.decode_context + wasted),
        prompt=_worst(model, lambda _: shape.mean_prompt_tokens + wasted),
        prompt_percentile=_worst(model, lambda _: longest + wasted),
        handed=_worst(model, lambda w: float((prompts if w == 0 else prompts.clip(max=w)).mean())),
        handed_percentile=_worst(model, lambda w: longest if w == 0 else min(longest, float(w))),
    )


def _worst(model: ModelSpec, tokens_of_window: Callable[[int], float]) -> Floats:
    tokens = {w: tokens_of_window(w) for w in set(model.windows)}
    return worst_sums(np.array([tokens[w] for w in model.windows]) * model.kv_bytes_per_token_per_layer)
