"""Every model on GPUs of its own, as well as it can be done: what shared units have to be better than."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from policies.shared_units.placed_unit import UnitEstimates, UnitModel


@dataclass(frozen=True, slots=True)
class Replicas:
    """Equal instances of one model, each on a mesh of its own."""

    model: str
    gpus: int
    """Of one of them."""
    count: int
    requests_per_s: float
    """Of all of them."""


def optimal_dedicated(models: Sequence[UnitModel], gpus: int, estimates: UnitEstimates) -> tuple[Replicas, ...]:
    """The dedicated split of `gpus` GPUs with the most requests/s: how many replicas of which size each model has.

    A dynamic program over models and GPUs; a model may have none. Replicas share a model's rate equally, and the
    decode share that a model would have in a unit does not hold them back: they have all of the processors.
    """
    best: list[tuple[float, tuple[Replicas, ...]]] = [(0.0, ())] * (gpus + 1)
    for model in models:
        options = _options(model, gpus, estimates)
        best = [
            max(
                [best[held], *((best[held - n][0] + r.requests_per_s, (*best[held - n][1], r))
                               for n, r in options if n <= held)],
                key=lambda each: each[0],
            )
            for held in range(gpus + 1)
        ]  # fmt: skip
    return best[gpus][1]


def _options(model: UnitModel, gpus: int, estimates: UnitEstimates) -> list[tuple[int, Replicas]]:
    """(GPUs in all, replicas): for each size as many as carry the rate and no more."""
    found = []
    for size in model.degrees:
        for count in range(1, gpus // size + 1):
            rate = model.requests_per_s / count
            alone = estimates.alone(size, replace(model, requests_per_s=rate))
            if alone is None:
                break
            found.append((size * count, Replicas(model.name, size, count, alone.requests_per_s * count)))
            if alone.requests_per_s >= rate:
                break
    return found
