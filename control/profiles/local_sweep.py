"""A sweep of this machine: the steps of a model on each kind of local node, and what a pipeline costs beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from control.cloud.local.kind import LocalKind
from control.profiles.errands import PATIENCE_S, Errand, run_errands
from templates_lib.model_spec import ModelSpec
from templates_lib.pipeline_cost import PipelineCost
from templates_lib.profile_row import ProfileRow
from templates_lib.source import Progress

_PIPELINE = LocalKind("pipeline", 0.6, 2048, 1)
"""Processor time is the same whatever the share of it, so one node speaks for all; a scheduler and two workers with
torch in each take this much memory."""


@dataclass(frozen=True, slots=True)
class Sweep:
    rows: dict[str, tuple[ProfileRow, ...]]
    """By kind."""
    pipeline: PipelineCost


def sweep(kinds: Sequence[LocalKind], model: ModelSpec, weights: str, work: Path, progress: Progress) -> Sweep:
    """`weights` as `templates_lib.weights_place` has it; `work`: a directory that nobody else uses.

    Raises SweepError.
    """
    company = ("--company-s", str(PATIENCE_S))
    engines = [
        Errand(kind, model.dtype, ("engine", "--weights", weights, "--cores", str(kind.cpu_cores), *company))
        for kind in kinds
    ]
    pipeline = Errand(_PIPELINE, model.dtype, ("pipeline", "--hidden-size", str(model.hidden_size)))
    *swept, (cost,) = run_errands([*engines, pipeline], work, progress)
    return Sweep(
        {kind.name: tuple(map(_row, lines)) for kind, lines in zip(kinds, swept, strict=True)},
        msgspec.json.decode(cost, type=PipelineCost),
    )


def _row(line: bytes) -> ProfileRow:
    return msgspec.json.decode(line, type=ProfileRow)
