"""The highest cost of j consecutive layers."""

import numpy as np

from templates_lib.ports.cost_model import Floats


def worst_sums(per_layer: Floats) -> Floats:
    """(L,) → (L,): entry j - 1 is the largest sum over j consecutive layers."""
    count = len(per_layer)
    total = np.concatenate(([0.0], np.cumsum(per_layer)))
    return np.array([(total[j:] - total[: count + 1 - j]).max() for j in range(1, count + 1)])
