"""How far the step times of one GPU of a plan may be off."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTimeBasis:
    """Step times of one GPU under one engine, and their median relative error."""

    gpu: str
    engine: str
    source: str
    """`measured`, `estimated` or `kernels`."""
    ttft_error: float | None
    """Of the time to the first token, or of single steps where they are `measured`; None where nobody knows."""
    tpot_error: float | None
    judged_on: str
    """What the errors are of: `steps` held out of the profile; deployments of this `gpu`, none of which was fitted; or,
    where it has none, of `other GPUs`, each left out in turn. Empty where nobody knows."""
    deployments: int
    """How many were compared."""
    judged_engine: str
    """The engine of those deployments: another one where `engine` has none of its own."""
