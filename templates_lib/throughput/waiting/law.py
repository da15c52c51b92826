"""Lengths and objectives of a served model that waiting depends on, each law made once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.apps.served_model import ServedModel
from templates_lib.throughput.waiting.gaps import GapLaw, gap_law, together_law
from templates_lib.throughput.waiting.population import Population, Sizes, context_sizes, prompt_sizes
from templates_lib.values.work import Phase

Floats = NDArray[np.float64]

BELOW = np.array(
    [0, 0.02, 0.05, *np.arange(1, 10) / 10, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, 0.9925, 0.995, 0.9975, 0.999, 1]
)
"""Shares of prompts that quantiles are taken of: closer where prompts are long, which is what others wait for."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingLaw:
    share: float
    """Share of all requests that the objective has to hold for."""
    prompts: Floats
    """(BELOW,): quantiles of prompt lengths."""
    places: Floats
    """(BELOW - 1,): where the mean of the prompts between two quantiles is, from 0 (the lower) to 1."""
    population: Population
    prompt_sizes: Sizes
    context_sizes: Sizes
    apart: GapLaw
    """Law of decode behind a hand-off."""
    together: GapLaw
    """Law of decode where the prompt was computed."""

    @property
    def weights(self) -> Floats:
        """(BELOW - 1,): shares of the prompts between two of `prompts`."""
        return np.diff(BELOW)

    def means(self, of_prompts: Floats) -> Floats:
        """(..., BELOW - 1): of a value at `prompts` (..., BELOW), what it is in the mean of the prompts between two."""
        return np.asarray(of_prompts[..., :-1] + (of_prompts[..., 1:] - of_prompts[..., :-1]) * self.places)


def waiting_law(served: ServedModel) -> WaitingLaw:
    shape, share = served.shape, served.slo.percentile / 100
    ordered = np.sort(shape.prompt_tokens.astype(np.float64))
    prompts = np.quantile(ordered, BELOW)
    # Means between quantiles, by the integral of the quantile function on straight lines between its samples.
    fine = np.linspace(0.0, 1.0, 20 * len(ordered) + 1)
    mass = np.concatenate(([0.0], np.cumsum(np.quantile(ordered, (fine[1:] + fine[:-1]) / 2)))) / (len(fine) - 1)
    between = np.diff(np.interp(BELOW, fine, mass)) / np.diff(BELOW)
    width = np.diff(prompts)
    places = np.where(width > 0, (between - prompts[:-1]) / np.where(width > 0, width, 1.0), 0.5)
    return WaitingLaw(
        share=share,
        prompts=prompts,
        population=Population(share),
        prompt_sizes=prompt_sizes(shape),
        context_sizes=context_sizes(shape),
        apart=gap_law(served.model, shape, served.slo_ms(Phase.DECODE) / 1000, share),
        together=together_law(share),
        places=np.clip(places, 0.0, 1.0),
    )
