"""Subjects of profiles: two subjects with one fingerprint take equally long for the same step."""

import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from control.cloud.local.kinds import LocalMachine
from control.profiles.engine_home import releases
from templates_lib.cost.step_terms import VERSION
from templates_lib.models.model_spec import ModelSpec


@dataclass(frozen=True, slots=True)
class ProfileSubject:
    """A share of this machine, an engine and a model."""

    processor: str
    processors: int
    cpu_cores: float
    threads: int
    engine: str
    releases: tuple[str, ...]
    terms: int
    """Version of the terms that are fitted."""
    model: str
    revision: str
    dtype: str

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=12).hexdigest()

    @property
    def machine(self) -> str:
        """Describe the machine for people."""
        return f"{self.cpu_cores:g} of {self.processors} x {self.processor}"


def local_subject(machine: LocalMachine, model: ModelSpec, engine: str) -> ProfileSubject:
    return part_subject(machine, engine, model.id, model.revision, model.dtype)


def part_subject(machine: LocalMachine, engine: str, model: str, revision: str, dtype: str) -> ProfileSubject:
    """The same of what an engine computes that is no model of its own: `model` names it."""
    return ProfileSubject(
        processor=_processor(),
        processors=os.cpu_count() or 1,
        cpu_cores=machine.cpu_cores,
        threads=machine.kind.threads,
        engine=engine,
        releases=releases(engine),
        terms=VERSION,
        model=model,
        revision=revision,
        dtype=dtype,
    )


@cache
def _processor() -> str:
    """Name the processor as the system does; its architecture where it has no name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
