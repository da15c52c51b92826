"""Subjects of profiles: two subjects with one fingerprint take equally long for the same step."""

import hashlib
import os
from dataclasses import dataclass

import msgspec

from control.cloud.local.kinds import LocalMachine
from control.profiles.engine_home import releases
from templates_lib.cost.step_terms import VERSION
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.processor_name import processor_name


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
        processor=processor_name(),
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


@dataclass(frozen=True, slots=True)
class RentedSubject:
    """A kind of rented node, an engine and a model."""

    cloud: str
    instance_type: str
    config: str
    """Node configuration that it was rented as."""
    device: str
    """Kind of device that was measured: `cuda`, or `cpu` where the way was tried without a GPU."""
    gpu: str
    """Its driver's name of the GPU; empty: it has none."""
    gpus: int
    driver: str
    processor: str
    cpu_cores: float
    tensor_parallel: int
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
        what = f"{self.gpus} x {self.gpu}, driver {self.driver}" if self.device == "cuda" else "no GPU measured"
        return f"{self.instance_type} of {self.cloud}, {what}, {self.cpu_cores:g} x {self.processor}"
