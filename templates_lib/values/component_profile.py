"""Measured times of an encoder or a generator of an any-to-any model on one kind of node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnitTime:
    """One picture or clip that is encoded alone, or one answer that a generator makes alone."""

    rows: float
    """That come of it; of an answer its units: seconds of speech, or denoising steps times the picture's rows of
    latents."""
    seconds: float
    """On the clock of the node as it is: under its quota, with the engine's threads."""


@dataclass(frozen=True, slots=True)
class UnitBlock:
    """Repetitions of a unit one behind the other, one of several such blocks."""

    rows: float
    """As in `UnitTime`."""
    seconds: float
    """Of one repetition, on the clock."""
    cpu_s: float
    """Processor time of one repetition."""


@dataclass(frozen=True, slots=True)
class ComponentProfile:
    subject: str
    """Hash of the hardware, the node's share of it, the engine's release, the component and the sizes measured."""
    measured_at: str
    """ISO 8601, UTC."""
    machine: str
    """Name of the machine, for people."""
    component: str
    """As `templates_lib.cost.measured_component.component_key` has it."""
    gpu: str
    """Name of what stands for the node's processors."""
    times: tuple[UnitTime, ...]
    """By rows, rising."""
