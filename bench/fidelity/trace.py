"""Open-loop requests: seeded Poisson arrivals with the lengths of a workload."""

from dataclasses import dataclass

import numpy as np

from templates_lib.load.workload import WorkloadShape


@dataclass(frozen=True, slots=True)
class Asked:
    arrival_s: float
    """Since the run began."""
    prompt_tokens: int
    output_tokens: int


def poisson(shape: WorkloadShape, requests_per_s: float, seconds: float, seed: int) -> tuple[Asked, ...]:
    random = np.random.default_rng(seed)
    count = random.poisson(requests_per_s * seconds)
    arrivals = np.sort(random.uniform(0.0, seconds, count))
    drawn = random.integers(len(shape.prompt_tokens), size=count)
    columns = arrivals, shape.prompt_tokens[drawn], shape.output_tokens[drawn]
    return tuple(Asked(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def burst(shape: WorkloadShape, count: int, seed: int) -> tuple[Asked, ...]:
    """All at once."""
    drawn = np.random.default_rng(seed).integers(len(shape.prompt_tokens), size=count)
    return tuple(Asked(0.0, int(shape.prompt_tokens[n]), int(shape.output_tokens[n])) for n in drawn)
