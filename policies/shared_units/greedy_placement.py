"""Algorithm 1 of MuxServe: models one after the other onto the mesh where they add most, for the best mesh group; and
the greedy by memory that the paper compares it with (Figure 8).

Built from the paper's pseudo-code. (The authors' code indexes the meshes' throughputs by places in a list that it sorts
anew after every model, and so takes the increase against another mesh's.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policies.shared_units.mesh_groups import MeshGroup
from policies.shared_units.placed_unit import PlacedUnit, UnitEstimates, UnitModel


@dataclass(slots=True)
class _Mesh:
    gpus: int
    models: list[UnitModel]


Choose = Callable[[UnitEstimates, Sequence[_Mesh], UnitModel], _Mesh | None]


def by_throughput(
    models: Sequence[UnitModel], groups: Sequence[MeshGroup], estimates: UnitEstimates
) -> tuple[PlacedUnit, ...] | None:
    """Algorithm 1. None where no mesh group holds all models.

    Models come in order of what is to be computed for them, the most first. A mesh that does not hold a model beside
    those that it has is not looked at. The first of equally good meshes and groups is taken.
    """
    return _best(sorted(models, key=lambda model: (-model.computation, model.name)), groups, estimates, _most_added)


def by_memory(
    models: Sequence[UnitModel], groups: Sequence[MeshGroup], estimates: UnitEstimates
) -> tuple[PlacedUnit, ...] | None:
    """The greedy of Figure 8: models in order of their rates, each onto the mesh with the most free memory. It is given
    the best mesh group; None where none holds all models."""
    return _best(sorted(models, key=lambda model: (-model.requests_per_s, model.name)), groups, estimates, _most_free)


def _best(
    models: Sequence[UnitModel], groups: Sequence[MeshGroup], estimates: UnitEstimates, choose: Choose
) -> tuple[PlacedUnit, ...] | None:
    best: tuple[PlacedUnit, ...] | None = None
    for group in groups:
        units = _placed(models, group, estimates, choose)
        if units is not None and (best is None or total(units) > total(best)):
            best = units
    return best


def _placed(
    models: Sequence[UnitModel], group: MeshGroup, estimates: UnitEstimates, choose: Choose
) -> tuple[PlacedUnit, ...] | None:
    meshes = [_Mesh(gpus, []) for gpus in group]
    for model in models:
        mesh = choose(estimates, meshes, model)
        if mesh is None:
            return None
        mesh.models.append(model)
    return placed(estimates, [(mesh.gpus, mesh.models) for mesh in meshes])


def placed(estimates: UnitEstimates, units: Sequence[tuple[int, Sequence[UnitModel]]]) -> tuple[PlacedUnit, ...] | None:
    """Units of (GPUs, models) with their estimates, empty ones left out; None where one does not fit."""
    found = []
    for gpus, models in units:
        if models:
            estimate = estimates.of(gpus, models)
            if estimate is None:
                return None
            found.append(PlacedUnit(gpus, tuple(sorted(model.name for model in models)), estimate))
    return tuple(found)


def total(units: Sequence[PlacedUnit]) -> float:
    """The objective of equation 1: requests/s of all units."""
    return sum(unit.estimate.requests_per_s for unit in units)


def _most_added(estimates: UnitEstimates, meshes: Sequence[_Mesh], model: UnitModel) -> _Mesh | None:
    best, most = None, -float("inf")  # below 0 too: a model has to go somewhere, though it may take from the others
    for mesh in meshes:
        with_it = estimates.requests_per_s(mesh.gpus, [*mesh.models, model])
        before = estimates.requests_per_s(mesh.gpus, mesh.models)
        if with_it is not None and before is not None and with_it - before > most:
            best, most = mesh, with_it - before
    return best


def _most_free(estimates: UnitEstimates, meshes: Sequence[_Mesh], model: UnitModel) -> _Mesh | None:
    fitting = [mesh for mesh in meshes if estimates.of(mesh.gpus, [*mesh.models, model]) is not None]
    return max(fitting, key=lambda mesh: estimates.memory.kv_bytes(mesh.gpus, mesh.models), default=None)
