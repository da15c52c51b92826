"""A sweep of this machine: the steps of a model on each kind of local node, and what a pipeline costs beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from control.cloud.local.kind import LocalKind
from control.profiles.engine_home import engine_python
from control.profiles.measurement_jobs import PATIENCE_S, MeasurementJob, run_jobs
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.models.hub_weights import is_on_hub
from templates_lib.models.model_spec import ModelSpec
from templates_lib.models.weights_place import weights_path
from templates_lib.ports.source import Progress
from templates_lib.values.profile_row import ProfileBlock, ProfileRow, rows_of

_PIPELINE = LocalKind("pipeline", 0.6, 2048, 1)
"""Processor time is the same whatever the share of it, so one node speaks for all; a scheduler and two workers with
torch in each take this much memory."""


@dataclass(frozen=True, slots=True)
class LocalSweep:
    rows: dict[str, tuple[ProfileRow, ...]]
    """Rows by kind."""
    hand_off: dict[str, HandOffCost]
    """By kind: whose processor's caches are cold more often, needs more for a byte."""
    pipeline: PipelineCost


def sweep(
    kinds: Sequence[LocalKind], model: ModelSpec, engine: str, weights: str, work: Path, progress: Progress
) -> LocalSweep:
    """`weights` as `templates_lib.models.weights_place` has it; `work`: a directory that nobody else uses.

    Raises SweepError, NoEngineError, NoWeightsError.
    """
    # A package of weights is one of ours: an engine with an environment of its own does not have it.
    python, place = engine_python(engine), weights if is_on_hub(weights) else f"path:{weights_path(weights)}"
    what = ("engine", "--engine", engine, "--weights", place)
    company = ("--company-s", str(PATIENCE_S))
    engines = [MeasurementJob(kind, model.dtype, python, (*what, *company)) for kind in kinds]
    pipeline = MeasurementJob(
        _PIPELINE, model.dtype, engine_python("torch"), ("pipeline", "--hidden-size", str(model.hidden_size))
    )
    *swept, (cost,) = run_jobs([*engines, pipeline], work, progress)
    return LocalSweep(
        {
            kind.name: rows_of(map(_block, blocks), kind.cpu_cores)
            for kind, (*blocks, _) in zip(kinds, swept, strict=True)
        },
        {kind.name: msgspec.json.decode(last, type=HandOffCost) for kind, (*_, last) in zip(kinds, swept, strict=True)},
        msgspec.json.decode(cost, type=PipelineCost),
    )


def _block(line: bytes) -> ProfileBlock:
    return msgspec.json.decode(line, type=ProfileBlock)
