"""Lengths and objectives of a served model that waiting depends on, each law made once."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.apps.served_model import ServedModel
from templates_lib.load.workload import WorkloadShape
from templates_lib.models.model_spec import ModelSpec
from templates_lib.throughput.request import LATE_ALONE
from templates_lib.throughput.waiting.population import Population, Sizes, context_sizes
from templates_lib.values.work import Phase

Floats = NDArray[np.float64]

PHASES = (np.arange(8) + 0.5) / 8
"""Shares of a running step that are still to come when a KV cache arrives: any share is as likely."""
HAND_OFFS = np.geomspace(1e-3, 30.0, 64)
"""Hand-off times of the mean prompt that are tried, in gaps."""
SPREADS = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0])
"""Standard deviations of a step's time over its mean, for which `GapLaw.steps` is known."""
_erf = np.frompyfunc(math.erf, 1, 1)
_OF_NETWORKS = 0.25
"""What a network may be slower by is worth that power of it: the last piece of a hand-off is little beside a step."""
POINTS = 400
"""Points of the distribution of what answers leave to their steps, closer where it is small."""


@dataclass(frozen=True, slots=True, eq=False)
class GapLaw:
    """An answer of O tokens has O - 1 gaps; the mean of them is promised. Before its first step behind a hand-off it
    waits for its KV cache and for the end of a step under way (a share U of one): it is late when

        T (1 + U / G / (O - 1)) + H / (O - 1) > objective

    with T its mean step, H its hand-off, which grows with its prompt, and G the groups that take steps in turns: it
    joins the one whose step is next. So short answers to long prompts are the late
    ones, and the law is over both lengths together.
    """

    hand_off_s: float
    """Seconds that the mean prompt's hand-off may take; others in proportion to their bytes. Infinite where no answer
    has a gap."""
    steps: Floats
    """(SPREADS,): how much of the objective a mean step may take, so that enough answers are in time whose hand-offs
    take as long as that."""

    def step_share(self, spread: Floats) -> Floats:
        """`steps` where a step's time has this standard deviation over its mean."""
        return np.interp(spread, SPREADS, self.steps)


def gap_law(model: ModelSpec, shape: WorkloadShape, tpot_s: float, share: float, groups: int) -> GapLaw:
    """Make the law that holds for `share` of all answers. Steps and hand-offs are of different nodes, which do not know
    of each other: both get one allowance, of all that keep the objective the one that makes steps² · hand-off largest.
    The slowest network that will do grows with the hand-off; the rate of a node grows with what its steps take beyond
    an empty one, which at twice the time of an empty one is twice as fast as they."""
    left = [_left_to_steps(model, shape, hand_off, groups) for hand_off in (0.0, *HAND_OFFS)]
    if not np.isfinite(left[0]).any():
        return GapLaw(math.inf, _held(left[0], share))
    steps = [min(float(np.quantile(each, 1 - share)), 1.0) for each in left]
    worth = np.array(steps[1:]) ** 2 * HAND_OFFS**_OF_NETWORKS
    at = int(worth.argmax())
    return GapLaw(float(HAND_OFFS[at]) * tpot_s, _held(left[1 + at], share))


def together_law(share: float) -> GapLaw:
    """Make the law without hand-off, where nobody waits before the second token: all is left to the steps."""
    return GapLaw(math.inf, _held(np.ones(1), share))


def _left_to_steps(model: ModelSpec, shape: WorkloadShape, hand_off: float, groups: int) -> Floats:
    """(n, PHASES): of the objective, for the mean step, where the mean prompt's hand-off takes `hand_off` gaps."""
    prompt, gaps = shape.prompt_tokens.astype(np.float64), shape.output_tokens.astype(np.float64)[:, None] - 1
    handed = np.mean([np.minimum(prompt, w) if w else prompt for w in model.windows], axis=0)
    some = np.maximum(gaps, 1.0)
    left = (1 - hand_off * (handed / handed.mean())[:, None] / some) / (1 + PHASES / groups / some)
    return np.asarray(np.where(gaps > 0, np.maximum(left, 0.0), np.inf))


def _held(left: Floats, share: float) -> Floats:
    """(SPREADS,): the mean step, in gaps, at which a step whose time is normal is beyond `left` for 1 - `share`."""
    levels = np.linspace(0.0, 1.0, POINTS) ** 3
    points = np.quantile(np.where(np.isfinite(left), left, 1e3), (levels[1:] + levels[:-1]) / 2)
    weights = np.diff(levels)
    found = [min(float(np.quantile(left, 1 - share, method="lower")), 1.0)]
    for spread in SPREADS[1:]:
        low, high = 0.0, found[0]
        for _ in range(20):
            middle = (low + high) / 2
            late = float(weights @ _normal((1 - points / max(middle, 1e-9)) / spread))
            low, high = (middle, high) if late <= 1 - share else (low, middle)
        found.append(low)
    return np.array(found)


def _normal(x: Floats) -> Floats:
    """The distribution function of the standard normal distribution. NumPy has none, and SciPy takes long to import."""
    return 0.5 * (1 + np.asarray(_erf(x / math.sqrt(2)), dtype=np.float64))


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
    context_sizes: Sizes
    apart: GapLaw
    """Law of decode behind a hand-off, in one group."""
    in_turns: GapLaw
    """The same in two groups, as a pipeline of two stages has them; with more, nobody waits longer."""
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
    steady = 1 - LATE_ALONE * (1 - share)
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
        context_sizes=context_sizes(shape),
        apart=gap_law(served.model, shape, served.slo_ms(Phase.DECODE) / 1000, steady, 1),
        in_turns=gap_law(served.model, shape, served.slo_ms(Phase.DECODE) / 1000, steady, 2),
        together=together_law(share),
        places=np.clip(places, 0.0, 1.0),
    )
