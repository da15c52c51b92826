"""Terms that add up to the time of a stage's step on a processor: the features of the measured cost model.

Every term is non-decreasing in layers, tokens, requests and contexts, so that a fit without negative coefficients is
too. A product of a few rows with a weight matrix costs one pass over the weights, and more for the second row than for
each later one, hence the terms of `few` rows. A product also has the rows that the engine adds to it (`row_padding`),
and attention the keys that are masked away (`prompt_tiles`). Prompts and requests that decode attend apart from each
other: a layer that has both takes longer than the sum of them, by a twentieth of a step of 64 tokens beside 8 requests.
Of many rows of one product each costs a tenth more, since what a layer makes of them is more than the caches of a
processor hold.
"""

import numpy as np

from templates_lib.cost.prompt_tiles import attended_keys
from templates_lib.cost.row_padding import MOST_ROWS, padded_rows
from templates_lib.ports.cost_model import Floats, NodeStep

FEW = 2.0
"""Rows up to which a product is dearer than its share of a larger one."""
WIDE = 128.0
"""Rows of a product from which on each is dearer."""
VERSION = 3
"""Rises with what a term means, and with what the torch engine does of a step: profiles of another are not used."""


def step_terms(step: NodeStep, *, head: bool) -> dict[str, Floats]:
    """Term → how much of it a step has; all broadcast together. `head`: norm, LM head and sampling included."""
    layers, prompts, requests = step.layers, step.prompt_tokens, step.decode_requests
    rows = prompts + requests
    padded = padded_rows(rows)
    sampled = requests + np.minimum(prompts, 1.0) if head else np.zeros(())
    return {
        "step": np.ones(()),
        "token": rows,
        "layer": layers,
        "layer_few_rows": layers * np.minimum(rows, FEW),
        "layer_row": layers * padded,
        "layer_wide_row": layers * _wide_rows(padded),
        "layer_mixed": layers * np.minimum(prompts, 1.0) * np.minimum(requests, 1.0),
        "layer_prompt_attention": layers * prompts * attended_keys(step.prompt_context),
        "layer_request": layers * requests,
        "layer_decode_attention": layers * requests * step.decode_context,
        "head": np.minimum(sampled, 1.0),
        "head_few_rows": np.minimum(sampled, FEW),
        "head_row": padded_rows(sampled),
    }


def _wide_rows(padded: Floats) -> Floats:
    """Rows beyond the first WIDE of each product."""
    whole = np.floor(padded / MOST_ROWS)
    return np.asarray(whole * (MOST_ROWS - WIDE) + np.maximum(padded - whole * MOST_ROWS - WIDE, 0.0))
