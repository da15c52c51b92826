"""A member of a shared unit: one model, what is asked of it, and how long its jobs take by the size of their batch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class JobTimes:
    """Seconds of a member's jobs on its shares of the GPUs, with nothing beside them. Arrays (B,): batches of 1 to B
    requests."""

    prefill_s: Floats
    """A job that prefills the whole batch."""
    decode_s: Floats
    """A job that gives each request of the batch one token."""
    decode_reads: Floats
    """Share of the bandwidth of the GPUs' memory that decode jobs take while they run: bytes over time over bandwidth;
    at most 1."""
    prefill_reads: Floats
    """The same of prefill jobs."""

    def __post_init__(self) -> None:
        shapes = {each.shape for each in (self.prefill_s, self.decode_s, self.decode_reads, self.prefill_reads)}
        if len(shapes) != 1 or not len(self.prefill_s):
            raise ValueError(
                f"times of jobs need one number a batch size, of one at least: these have {sorted(shapes)}"
            )

    @property
    def largest(self) -> int:
        """The largest batch with known times."""
        return len(self.prefill_s)


@dataclass(frozen=True, slots=True, eq=False)
class UnitMember:
    """One model of a unit under its workload. A job holds requests of one member only (MuxServe, section 3.1)."""

    name: str
    requests_per_s: float
    """W of equation 3."""
    output_tokens: float
    """Mean tokens that a request generates: l_o of equation 3."""
    kv_bytes: float
    """What a request holds of the KV cache at its longest, over all GPUs."""
    decode_share: float
    """Share of the GPUs' processors that its decode jobs may use, at most 1."""
    times: JobTimes

    def __post_init__(self) -> None:
        for what, value in (
            ("rate", self.requests_per_s), ("output", self.output_tokens), ("KV cache", self.kv_bytes),
            ("decode share", self.decode_share),
        ):  # fmt: skip
            if not 0 < value < float("inf"):
                raise ValueError(f"{self.name}: a {what} of {value:g} is none; give a number above 0")
