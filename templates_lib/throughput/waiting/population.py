"""Numbers of requests present at once: Poisson, as those in service are that came at random and do not wait (M/G/∞)."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from templates_lib.load.workload import WorkloadShape

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the requests of a population: moments in multiples of the mean."""

    square: float
    cube: float


ALIKE = Sizes(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Population:
    """Holds for `share` of the requests that come: with itself, one finds the others as they are at any time."""

    share: float

    def mean_within(self, room: Floats, sizes: Sizes) -> Floats:
        """The mean number of requests so that they and one more take up no more than `room`, in mean requests; 0 where
        there is none.

        What they take up is compound Poisson with mean n and variance n · square: its quantile is n + z √(n · square)
        + (z² - 1) / 6 · cube / square (Cornish and Fisher).
        """
        z = NormalDist().inv_cdf(self.share)
        spread = z * np.sqrt(sizes.square)
        skew = (z * z - 1) / 6 * sizes.cube / sizes.square
        left = np.maximum(room - 1 - skew, 0.0)
        return np.asarray(((np.sqrt(spread**2 + 4 * left) - spread) / 2) ** 2)


def context_sizes(shape: WorkloadShape) -> Sizes:
    """Sizes of decoding requests: tokens in the KV cache over all output tokens, Σ (P + i)ᵏ for i < O."""
    p, o = shape.prompt_tokens.astype(np.float64), shape.output_tokens.astype(np.float64)
    ones, squares = o * (o - 1) / 2, (o - 1) * o * (2 * o - 1) / 6
    mean = (p * o + ones).sum() / o.sum()
    square = (o * p**2 + 2 * p * ones + squares).sum() / o.sum()
    cube = (o * p**3 + 3 * p**2 * ones + 3 * p * squares + ones**2).sum() / o.sum()
    return Sizes(float(square / mean**2), float(cube / mean**3))
