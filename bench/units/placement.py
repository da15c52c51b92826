"""Algorithm 1 of MuxServe beside the exact partition, the greedy by memory, and dedicated GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from bench.units.exact_partition import most_requests_per_s
from bench.units.measured import ACTIVATIONS_GIB, ENGINE_GIB, GIB, TIMES, USABLE
from bench.units.profile import Floats, model_of
from policies.shared_units.dedicated import optimal_dedicated
from policies.shared_units.greedy_placement import by_memory, by_throughput, total
from policies.shared_units.mesh_groups import mesh_groups
from policies.shared_units.placed_unit import MeshMemory, PlacedUnit, UnitEstimates, UnitModel
from policies.shared_units.share_candidates import share_candidates
from templates_lib.units.job_times import Lengths
from templates_lib.units.member import JobTimes
from templates_lib.values.hardware import load_gpus

LENGTHS = Lengths(161.0, 338.0)
"""Mean tokens of ShareGPT's prompts and answers (section 2.1)."""
NODE_GPUS = 8
PROFILED = {"llama-7b": (1, 2, 4, 8), "llama-13b": (1, 2, 4, 8), "llama-30b": (2, 4), "llama-65b": (4, 8)}
"""Model → tensor-parallel degrees that the authors measured."""
FIGURE_8 = ((4, 8), (7, 16))
"""(models, GPUs)."""
BUSIEST = (20.0, 40.0)
"""Most requests/s of one model: the paper's text says 20 (section 4.2), its scripts go up to 50."""
MEAN_BAR, WORST_BAR = 0.995, 0.97
"""Least throughput of Algorithm 1 over that of the exact partition."""
MEMORY = MeshMemory(load_gpus()["A100-80"].memory_bytes * USABLE, (ACTIVATIONS_GIB + ENGINE_GIB) * GIB)


@cache
def _jobs(model: str, gpus: int, percent: int, lengths: Lengths) -> JobTimes:
    return TIMES["profile"](model, gpus, 100, percent, lengths)


def unit_model(name: str, model: str, requests_per_s: float, lengths: Lengths = LENGTHS) -> UnitModel:
    """A LLaMA model by its size, on parts of A100s."""
    spec = model_of(model)
    kv = spec.layers * spec.kv_bytes_per_token_per_layer * lengths.total
    return UnitModel(
        name, requests_per_s, lengths.output, kv, spec.weight_bytes,
        lambda gpus, share: _jobs(model, gpus, round(100 * share), lengths), PROFILED[model],
    )  # fmt: skip


def random_models(count: int, busiest: float, rng: np.random.Generator) -> tuple[UnitModel, ...]:
    """Sizes as frequent as in Table 1, rates by a power law in random order: the busier half has most of what is asked.
    `busiest`: the most requests/s that a model is asked for."""
    sizes = rng.choice(list(PROFILED), size=count, p=np.array([12, 4, 2, 1]) / 19)
    rates = rng.uniform(2, busiest) * np.arange(1, count + 1) ** -rng.uniform(0.7, 2.1)
    rng.shuffle(rates)
    return tuple(unit_model(f"llm-{i}", str(s), float(r)) for i, (s, r) in enumerate(zip(sizes, rates, strict=True)))


@dataclass(frozen=True, slots=True)
class Case:
    models: tuple[UnitModel, ...]
    gpus: int
    estimates: UnitEstimates

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return mesh_groups(self.gpus, NODE_GPUS, len(self.models))

    @property
    def asked(self) -> float:
        return sum(model.requests_per_s for model in self.models)


def case_of(models: Sequence[UnitModel], gpus: int) -> Case:
    return Case(tuple(models), gpus, UnitEstimates(MEMORY, share_candidates(models, MEMORY)))


def cases(count: int, busiest: float, seed: int) -> Iterator[tuple[Case, float]]:
    """`count` random cases of each size of Figure 8 that the GPUs hold, with the requests/s of their best partition."""
    for number, gpus in FIGURE_8:
        rng, found = np.random.default_rng([seed, number]), 0
        while found < count:
            case = case_of(random_models(number, busiest, rng), gpus)
            best = most_requests_per_s(case.models, gpus, min(gpus, NODE_GPUS), case.estimates)
            if best is not None:
                found += 1
                yield case, best


def run(count: int, seed: int) -> bool:
    """Print Algorithm 1 and the greedy by memory over the exact partition, `count` cases of each size, at the paper's
    rates and at twice these. Tells whether the bars are met at the paper's."""
    print(f"{'models':>6} {'GPUs':>5} {'busiest':>8} {'cases':>6} {'Algorithm 1':>12} {'worst':>6} {'optimal':>8} "
          f"{'by memory':>10} {'worst':>6} {'dedicated':>10}")  # fmt: skip
    at_rates = [_ratios(count, busiest, seed) for busiest in BUSIEST]
    greedy, memory, _ = at_rates[0].T
    print(f"at {BUSIEST[0]:.0f} requests/s: mean {greedy.mean():.4f}, bar {MEAN_BAR}; worst {greedy.min():.3f}, bar "
          f"{WORST_BAR}; by memory {memory.mean():.4f}")  # fmt: skip
    return bool(greedy.mean() >= MEAN_BAR and greedy.min() >= WORST_BAR and greedy.mean() >= memory.mean())


def _ratios(count: int, busiest: float, seed: int) -> Floats:
    """(cases, 3) requests/s of Algorithm 1, of the greedy by memory and of optimal dedicated GPUs, over those of the
    exact partition; printed by size."""
    ratios: dict[tuple[int, int], list[tuple[float, ...]]] = {size: [] for size in FIGURE_8}
    for case, best in cases(count, busiest, seed):
        greedy = [_total(by(case.models, case.groups, case.estimates)) for by in (by_throughput, by_memory)]
        dedicated = sum(each.requests_per_s for each in optimal_dedicated(case.models, case.gpus, case.estimates))
        ratios[len(case.models), case.gpus].append((*(each / best for each in greedy), dedicated / best))
    for (models, gpus), rows in ratios.items():
        greedy, memory, dedicated = np.array(rows).T
        print(f"{models:6} {gpus:5} {busiest:8.0f} {len(rows):6} {greedy.mean():12.4f} {greedy.min():6.3f} "
              f"{(greedy > 1 - 1e-9).mean():8.0%} {memory.mean():10.4f} {memory.min():6.3f} "
              f"{dedicated.mean():10.4f}")  # fmt: skip
    return np.array([row for rows in ratios.values() for row in rows])


def _total(units: tuple[PlacedUnit, ...] | None) -> float:
    return 0.0 if units is None else total(units)
