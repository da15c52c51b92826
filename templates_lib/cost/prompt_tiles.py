"""How many queries of a prompt attend together on a processor.

The torch engine cuts prompts by it, and the measured cost model charges by it: what is masked away within a tile is
computed too. With all of a prompt together, a step of 512 tokens of one takes a tenth longer; 64 are too few for a
product.
"""

import numpy as np

from templates_lib.ports.cost_model import Floats

TILE_QUERIES = 128


def attended_keys(context: Floats) -> Floats:
    """Keys that each token of a prompt is multiplied with, seen or masked away; `context`: earlier tokens that it
    attends to, in the mean. A prompt of n ≤ TILE_QUERIES tokens has a context of (n - 1) / 2, and n keys for each; in a
    longer one, tokens see half of the tile that they are in."""
    return np.asarray(context + np.minimum(context, TILE_QUERIES / 2) + 1.0)
