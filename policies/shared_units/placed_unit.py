"""Models to be placed on meshes of GPUs of one type, units of them, and what these are estimated to do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from templates_lib.units.estimator import UnitEstimate, printed
from templates_lib.units.member import JobTimes, UnitMember

SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of processors that decode jobs may have (MuxServe, Figure 3)."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitModel:
    """A model under its workload, on any mesh that it may be split over."""

    name: str
    requests_per_s: float
    output_tokens: float
    kv_bytes: float
    """What a request holds of the KV cache at its longest."""
    weight_bytes: float
    jobs: Callable[[int, float], JobTimes]
    """(GPUs of a mesh, share of the processors for decode jobs) → times. Prefill jobs have all of the processors."""
    degrees: tuple[int, ...]
    """Tensor-parallel degrees that its jobs are known for, rising."""

    @property
    def computation(self) -> float:
        """What is to be computed: scale times popularity, by which Algorithm 1 orders models."""
        return self.weight_bytes * self.requests_per_s


@dataclass(frozen=True, slots=True)
class Candidate:
    """How a model would be on meshes of one size: Algorithm 2."""

    gpus: int
    """Tensor-parallel degree: the size of its mesh."""
    decode_share: float
    """The least share that carries the model's rate alone; the one that carries most where none does."""
    batch: int
    requests_per_s: float
    """What it is estimated to do alone."""


@dataclass(frozen=True, slots=True)
class MeshMemory:
    """What the GPUs of a mesh hold. Bytes."""

    usable: float
    """Of one GPU."""
    engine: float
    """On one GPU, for the engine and the activations of one member."""

    def kv_bytes(self, gpus: int, models: Sequence[UnitModel]) -> float:
        """What is left for the KV cache; below 0 where the models do not fit."""
        return gpus * (self.usable - self.engine * len(models)) - sum(model.weight_bytes for model in models)


@dataclass(frozen=True, slots=True)
class PlacedUnit:
    """A unit: its mesh and its members with what they are estimated to do."""

    gpus: int
    models: tuple[str, ...]
    estimate: UnitEstimate


@dataclass(slots=True)
class UnitEstimates:
    """F of equation 1: the throughput of sets of models on meshes, each worked out once."""

    memory: MeshMemory
    candidates: dict[str, dict[int, Candidate]]
    """Model → GPUs → candidate."""
    _known: dict[tuple[int, frozenset[str]], UnitEstimate | None] = field(default_factory=dict)

    def of(self, gpus: int, models: Sequence[UnitModel]) -> UnitEstimate | None:
        """What `models` do together on a mesh; None where they do not fit, or one cannot be split over it."""
        key = gpus, frozenset(model.name for model in models)
        if key not in self._known:
            self._known[key] = self._estimate(gpus, sorted(models, key=lambda model: model.name))
        return self._known[key]

    def requests_per_s(self, gpus: int, models: Sequence[UnitModel]) -> float | None:
        """F: the sum over the members; None as of `of`."""
        if not models:
            return 0.0
        found = self.of(gpus, models)
        return None if found is None else found.requests_per_s

    def alone(self, gpus: int, model: UnitModel) -> UnitEstimate | None:
        """What a model does by itself with all of the processors; None where it does not fit."""
        return printed([member_of(model, gpus, 1.0)], self.memory.kv_bytes(gpus, [model]))

    def _estimate(self, gpus: int, models: Sequence[UnitModel]) -> UnitEstimate | None:
        if any(gpus not in self.candidates[model.name] for model in models):
            return None
        members = [member_of(model, gpus, self.candidates[model.name][gpus].decode_share) for model in models]
        return printed(members, self.memory.kv_bytes(gpus, models))


def member_of(model: UnitModel, gpus: int, decode_share: float) -> UnitMember:
    """The model as a member of a unit on so many GPUs."""
    jobs = model.jobs(gpus, decode_share)
    return UnitMember(model.name, model.requests_per_s, model.output_tokens, model.kv_bytes, decode_share, jobs)
