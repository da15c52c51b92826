"""Measurements of encoders and generators on kinds of local nodes, and where they are kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from control.cloud.local.kind import LocalKind
from control.profiles.engine_home import engine_python
from control.profiles.measurement_jobs import MeasurementJob, run_jobs
from templates_lib.models.hub_weights import is_on_hub
from templates_lib.models.weights_place import weights_path
from templates_lib.ports.source import Progress
from templates_lib.values.component_profile import ComponentProfile, UnitBlock, UnitTime


@dataclass(frozen=True, slots=True)
class ComponentJob:
    kind: LocalKind
    engine: str
    weights: str
    """As `templates_lib.models.weights_place` has it."""
    component: str
    """Its name in the model's graph."""
    dtype: str
    sizes: tuple[int, ...]
    """Of the units to be measured: rows that come of an encoder's; seconds of speech, or denoising steps."""
    item_rows: float = 0.0
    """Of a picture that is made: its rows of latents; 0: none is."""


def sweep_components(jobs: Sequence[ComponentJob], work: Path, progress: Progress) -> list[tuple[UnitTime, ...]]:
    """Measure each, on a node of its own. `work`: a directory that nobody else uses. Raises SweepError, NoEngineError,
    NoWeightsError."""
    blocks = run_jobs([_measurement(job) for job in jobs], work, progress)
    return [
        unit_times((msgspec.json.decode(line, type=UnitBlock) for line in lines), job.kind.cpu_cores)
        for job, lines in zip(jobs, blocks, strict=True)
    ]


def unit_times(blocks: Iterable[UnitBlock], cpu_cores: float) -> tuple[UnitTime, ...]:
    """Return each size once, with the mean of its blocks: at most the processor time over the node's share, as of steps
    of decoders (`templates_lib.values.profile_row.rows_of`)."""
    found: dict[float, list[UnitBlock]] = {}
    for block in blocks:
        found.setdefault(block.rows, []).append(block)
    return tuple(UnitTime(rows, _seconds(own, cpu_cores)) for rows, own in sorted(found.items()))


def _seconds(blocks: list[UnitBlock], cpu_cores: float) -> float:
    wall_s = fmean(block.seconds for block in blocks)
    return wall_s if cpu_cores > 1 else min(wall_s, fmean(block.cpu_s for block in blocks) / cpu_cores)


def _measurement(job: ComponentJob) -> MeasurementJob:
    place = job.weights if is_on_hub(job.weights) else f"path:{weights_path(job.weights)}"
    what = ("component", "--weights", place, "--component", job.component, "--item-rows", f"{job.item_rows:g}")
    sizes = (word for size in job.sizes for word in ("--size", str(size)))
    return MeasurementJob(job.kind, job.dtype, engine_python(job.engine), (*what, *sizes))


class KeptComponentProfiles:
    """Profiles in the directory `home`, one file for each subject."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def get(self, subject: str) -> ComponentProfile | None:
        """Return None also for a file that is damaged, which is measured again."""
        try:
            return msgspec.json.decode((self._home / f"{subject}.json").read_bytes(), type=ComponentProfile)
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, profile: ComponentProfile) -> None:
        """Whole or not at all."""
        self._home.mkdir(parents=True, exist_ok=True)
        path = self._home / f"{profile.subject}.json"
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=1))
        new.replace(path)
