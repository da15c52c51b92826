"""The fitted estimate and the kernel-based model on the same measured deployments, as plans are made with each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from templates_lib.cost.coefficients import Coefficients, load_coefficients
from templates_lib.cost.deployment import Deployment
from templates_lib.cost.kernel_based import KernelCostModel
from templates_lib.cost.kernel_tables import installed_release
from templates_lib.cost.systems import load_systems
from templates_lib.cost.table_kernels import TableKernels
from templates_lib.cost.validation import Errors, as_planned, errors, ratios_of


@dataclass(frozen=True, slots=True)
class SourceComparison:
    """Errors over rows that both sources can express."""

    kernels: str
    """Release of the package with the kernel times."""
    rows: int
    missing: dict[str, int]
    """What was not timed → rows that need it, and are left out."""
    estimated: dict[str, Errors]
    """"SYSTEM ENGINE" → errors of the fitted estimate; `all` for all of them."""
    kernel_based: dict[str, Errors]


def compare_sources(deployments: Sequence[Deployment]) -> SourceComparison | None:
    """Both sources on `deployments`, engines as `medley plan` has them; None without the package of kernel times."""
    if not installed_release():
        return None
    whys = [not_timed(d) for d in deployments]
    both = [d for d, why in zip(deployments, whys, strict=True) if not why]
    planned = as_planned(load_coefficients())
    names = np.array([f"{d.system.name} {d.backend}" for d in both])
    found = []
    for ratios in (ratios_of(both, planned), ratios_of(both, planned, kernels_for)) if both else ():
        groups = {str(name): errors(ratios[names == name]) for name in np.unique(names)}
        found.append({"all": errors(ratios)} | groups)
    estimated, kernel_based = found or ({}, {})
    missing = Counter(why for why in whys if why)
    return SourceComparison(installed_release(), len(both), dict(missing.most_common()), estimated, kernel_based)


def not_timed(deployment: Deployment) -> str:
    """The first kernel that a deployment needs and that was not timed on its system; empty where all were."""
    timed = _kernels(deployment.system.name, deployment.backend)
    workers = [worker for worker in (deployment.prefill, deployment.decode) if worker is not None]
    whys = (timed.missing(deployment.model, worker.parallel) for worker in workers)
    return next((f"{deployment.system.name} {deployment.backend}: {why}" for why in whys if why), "")


def kernels_for(deployment: Deployment, engine: str, coefficients: Coefficients) -> KernelCostModel:
    """The kernel-based model of a deployment's machine: a `templates_lib.cost.validation.Maker`."""
    gpu = deployment.system.gpu
    timed = _kernels(deployment.system.name, deployment.backend)
    return KernelCostModel({gpu.name: gpu}, engine, coefficients, {gpu.name: timed})


@cache
def _kernels(system: str, framework: str) -> TableKernels:
    return TableKernels(load_systems()[system].gpu, system, framework)
