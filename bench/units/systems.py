"""Four ways to serve the authors' real workload on 32 A100s, by estimate, beside what they measured of three."""

from collections.abc import Sequence

from bench.units.measured import MeasuredUnit, measured_units
from bench.units.placement import MEMORY, Case, case_of, unit_model
from policies.shared_units.dedicated import optimal_dedicated
from policies.shared_units.greedy_placement import by_throughput
from policies.shared_units.placed_unit import PlacedUnit, UnitModel, member_of
from templates_lib.units.estimator import in_turn

GPUS = 32
SYSTEMS = ("spatial", "temporal", "flexsm")
"""The authors' names: their static split, temporal multiplexing on MuxServe's placement, MuxServe."""


def run() -> bool:
    """Print requests/s at each load: of the authors' static split, of Algorithm 1's units by turns and side by side,
    and of the best dedicated split with replicas. Tells whether Algorithm 1 is never below the static split."""
    print(f"{'':16} | {'estimated, steady state':^49} | {'measured, drain included':^29}")
    print(f"{'load':>5} {'asked':>10} | {'spatial':>9} {'temporal':>9} {'Algorithm 1':>12} {'weighted':>9} "
          f"{'dedicated':>9} | {'spatial':>9} {'temporal':>9} {'MuxServe':>9}")  # fmt: skip
    met = True
    for load in sorted({unit.scenario for unit in measured_units("spatial")}, key=int):
        runs = {system: [unit for unit in measured_units(system) if unit.scenario == load] for system in SYSTEMS}
        models = _models(runs["spatial"])
        case = case_of(list(models.values()), GPUS)
        units = by_throughput(case.models, case.groups, case.estimates) or ()
        static = _static(runs["spatial"], models, case)
        shared = {each.name: each.requests_per_s for unit in units for each in unit.estimate.members}
        dedicated = optimal_dedicated(case.models, GPUS, case.estimates)
        weighted = _weighted(shared, models) / _weighted(static, models)
        measured = [sum(model.done_per_s for unit in runs[s] for model in unit.models) for s in SYSTEMS]
        print(f"{load:>5} {case.asked:10.1f} | {sum(static.values()):9.1f} {_in_turn(units, models):9.1f} "
              f"{sum(shared.values()):12.1f} {weighted:9.2f} {sum(each.requests_per_s for each in dedicated):9.1f} | "
              + " ".join(f"{each:9.1f}" for each in measured))  # fmt: skip
        met = met and sum(shared.values()) >= sum(static.values()) * (1 - 1e-9)
    print("weighted: Algorithm 1 over spatial, requests/s weighted by what is asked, as the paper counts")
    return met


def _models(units: Sequence[MeasuredUnit]) -> dict[str, UnitModel]:
    return {m.llm: unit_model(m.llm, m.model, m.requests_per_s, m.lengths) for unit in units for m in unit.models}


def _static(units: Sequence[MeasuredUnit], models: dict[str, UnitModel], case: Case) -> dict[str, float]:
    """Model → requests/s on the GPUs that the authors' static split gives it."""
    found = {}
    for unit in units:
        (model,) = unit.models
        alone = case.estimates.alone(unit.gpus, models[model.llm])
        found[model.llm] = 0.0 if alone is None else alone.requests_per_s
    return found


def _in_turn(units: Sequence[PlacedUnit], models: dict[str, UnitModel]) -> float:
    """Requests/s of the same units whose jobs take turns, each with all of the processors."""
    total = 0.0
    for unit in units:
        members = [models[name] for name in unit.models]
        kv = MEMORY.kv_bytes(unit.gpus, members)
        found = in_turn([member_of(each, unit.gpus, 1.0) for each in members], kv)
        total += 0.0 if found is None else found.requests_per_s
    return total


def _weighted(rates: dict[str, float], models: dict[str, UnitModel]) -> float:
    return sum(rate * models[name].requests_per_s for name, rate in rates.items())
