"""The fewest A100s that serve the authors' real workload: dedicated, by Algorithm 1, and planned with units."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import ceil

import numpy as np

from bench.units.measured import measured_units
from bench.units.placement import MEMORY, NODE_GPUS, unit_model
from control.allocator import solve
from control.checker import check, claims_of
from policies.shared_units.greedy_placement import by_throughput, total
from policies.shared_units.mesh_groups import mesh_groups
from policies.shared_units.placed_unit import PlacedUnit, UnitEstimates, UnitModel
from policies.shared_units.share_candidates import share_candidates
from templates_lib.values.library import Library
from templates_lib.values.offer import Market, Offer
from templates_lib.values.settings import Settings, WorkLimits
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand, Leg, Route, Unit, WorkClass

SCALES = (0.02, 0.1, 0.3, 1.0, 2.0, 4.0)
"""Rates, in those of the authors' lowest load: 3 requests/s of a model in the mean."""
MOST_MEMBERS = 4
SIZES = (1, 2, 4, 8)
ALL_SERVED = 1 - 1e-6
BAR = 0.40
"""Fewer A100s than dedicated at the paper's rates."""
Capacity = tuple[int, Mapping[str, float]]
"""GPUs of a mesh, and requests per second of each model at once."""


def run() -> bool:
    """Print the GPUs at each scale. Tells whether plans with units never need more than the others, and meet the
    bar."""
    met = True
    print(f"{'scale':>6} {'asked':>8} {'dedicated':>10} {'Algorithm 1':>12} {'units':>6} {'fewer':>6} {'gap':>6} "
          f"{'columns':>8}")  # fmt: skip
    for scale in SCALES:
        models = _models(scale)
        estimates = UnitEstimates(MEMORY, share_candidates(models, MEMORY))
        alone = list(_alone(models, estimates))
        dedicated = sum(_dedicated(model, alone) for model in models)
        greedy = _by_algorithm_1(models, estimates, dedicated)
        columns = [*alone, *_shared(models, estimates), *_capacities(greedy or ())]
        gpus, gap = _planned(models, columns)
        least = sum(unit.gpus for unit in greedy) if greedy else None
        print(f"{scale:6.2f} {sum(m.requests_per_s for m in models):8.1f} {dedicated:10} {least or 'cannot':>12} "
              f"{gpus:6} {1 - gpus / dedicated:6.0%} {gap:6.1%} {len(columns):8}")  # fmt: skip
        met = met and gpus <= min(dedicated, least or dedicated)
        met = met and (scale != 1.0 or 1 - gpus / dedicated >= BAR)
    print(f"bar: never more than the others, {BAR:.0%} fewer than dedicated at scale 1")
    print("cannot: a model needs more than one mesh")
    return met


def _models(scale: float) -> list[UnitModel]:
    lowest = min((unit.scenario for unit in measured_units("spatial")), key=int)
    return [
        unit_model(m.llm, m.model, m.requests_per_s * scale, m.lengths)
        for unit in measured_units("spatial")
        if unit.scenario == lowest
        for m in unit.models
    ]


def _alone(models: Sequence[UnitModel], estimates: UnitEstimates) -> Iterator[Capacity]:
    """What one instance of each model does on each mesh, asked for more than it can do."""
    for model in models:
        for gpus in model.degrees:
            found = estimates.alone(gpus, replace(model, requests_per_s=1e6))
            if found is not None:
                yield gpus, {model.name: found.requests_per_s}


def _dedicated(model: UnitModel, alone: Sequence[Capacity]) -> int:
    """Fewest GPUs of equal replicas that carry a model's rate."""
    own = [(gpus, rates[model.name]) for gpus, rates in alone if model.name in rates]
    return min(gpus * ceil(model.requests_per_s / rate - 1e-9) for gpus, rate in own)


def _by_algorithm_1(models: Sequence[UnitModel], estimates: UnitEstimates, most: int) -> tuple[PlacedUnit, ...] | None:
    """Units on the fewest GPUs with which Algorithm 1 serves everything; None where `most` are not enough."""
    asked = sum(model.requests_per_s for model in models)
    for gpus in range(1, most + 1):
        units = by_throughput(models, mesh_groups(gpus, NODE_GPUS, len(models)), estimates)
        if units is not None and total(units) >= asked * ALL_SERVED:
            return units
    return None


def _shared(models: Sequence[UnitModel], estimates: UnitEstimates) -> Iterator[Capacity]:
    for size in range(2, MOST_MEMBERS + 1):
        for members in combinations(models, size):
            for gpus in SIZES:
                found = estimates.of(gpus, members)
                if found is None:
                    continue
                yield gpus, {each.name: each.requests_per_s for each in found.members}
                if found.requests_per_s >= sum(model.requests_per_s for model in members) * ALL_SERVED:
                    break  # a larger mesh does no more of what is asked


def _capacities(units: Sequence[PlacedUnit]) -> Iterator[Capacity]:
    for unit in units:
        yield unit.gpus, {each.name: each.requests_per_s for each in unit.estimate.members}


def _planned(models: Sequence[UnitModel], columns: Sequence[Capacity]) -> tuple[int, float]:
    """GPUs of the plan with the fewest, and how many fewer there could be, as a share."""
    library, snapshot = _library(models, columns), _snapshot(models)
    plan = solve(snapshot, library)
    wrong = check(plan, snapshot, claims_of(library, (each.template_id for each in plan.instances)))
    if wrong or plan.unmet:
        raise AssertionError(f"the plan does not serve everything: {wrong or plan.unmet}")
    return round(plan.usd_per_hour), plan.gap


def _library(models: Sequence[UnitModel], columns: Sequence[Capacity]) -> Library:
    names = [model.name for model in models]
    classes = tuple(WorkClass(f"{n}/aggregated", n, "aggregated", Unit.INVOCATION, "chat", 0.0) for n in names)
    sizes = [len(rates) for _, rates in columns]
    return Library(
        version="", cost_model_fingerprint="profile", configs=tuple(f"A100-80:{gpus}/n0" for gpus in SIZES),
        classes=classes, ids=np.array([f"{i:032x}".encode() for i in range(len(columns))], dtype="S32"),
        nodes=np.array([[int(gpus == size) for size in SIZES] for gpus, _ in columns], dtype=np.uint8),
        point_template=np.arange(len(columns), dtype=np.int32),
        entry_point=np.repeat(np.arange(len(columns), dtype=np.int32), sizes),
        entry_class=np.array([names.index(name) for _, rates in columns for name in rates], dtype=np.int16),
        entry_units_per_s=np.array([rate for _, rates in columns for rate in rates.values()]),
        engines=("",), template_engine=np.zeros(len(columns), dtype=np.int16),
    )  # fmt: skip


def _snapshot(models: Sequence[UnitModel]) -> Snapshot:
    offers = [
        Offer(cloud="own", region="r", zone="z", node_config=f"A100-80:{gpus}/n0", usd_per_hour=float(gpus),
              available_count=1000, market=Market.ON_DEMAND, instance_type=f"{gpus} A100s")
        for gpus in SIZES
    ]  # fmt: skip
    routes = tuple(Route(m.name, m.name, "chat", (Leg(f"{m.name}/aggregated", 1.0),), ()) for m in models)
    return Snapshot(
        version="bench", now="2026-11-27T00:00:00Z", offers=tuple(offers), pools=(), traffic=(), instances=(),
        routes=routes, demand=tuple(Demand(m.name, "chat", m.requests_per_s) for m in models),
        settings=Settings(utilisation_cap=1.0, startup_minutes=0.0, limits=WorkLimits(gap=0.001)),
        library_version="", cost_model_fingerprint="profile",
    )  # fmt: skip
