"""A part of a GPU as a smaller GPU: what its processors compute, and what of the memory's bandwidth they can use."""

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import msgspec

from templates_lib.ports.cost_model import WHOLE_GPU, GpuPart
from templates_lib.values.gpu import Gpu

FILE = "perf/shared_gpu.json"


@dataclass(frozen=True, slots=True)
class SharedGpu:
    """How much of a GPU a share of its processors is: share · (1 + half) / (share + half), which is the share itself
    where `half` is infinite.

    Compute is a little more than the share: clocks rise where fewer processors work. Of the memory's bandwidth a few
    processors use most already (MuxServe, Fig. 3).
    """

    date: str
    source: str
    command: str
    rows: int
    """Measured steps that the halves were fitted to."""
    dropped: int
    """Steps that were left out as outliers."""
    error: float
    """Median of |predicted / measured - 1| of steps on parts of GPUs, given their time on whole ones."""
    compute_half: float
    bandwidth_half: float

    def compute(self, share: float) -> float:
        """What a share of the processors computes, in what all of them do."""
        return reach(share, self.compute_half)

    def bandwidth(self, share: float) -> float:
        """What a share of the processors can use of the memory's bandwidth when nobody else does."""
        return reach(share, self.bandwidth_half)


def reach(share: float, half: float) -> float:
    """1 for all of the processors, rising with the share of them, never below it."""
    return share * (1 + half) / (share + half)


@cache
def load_shared_gpu() -> SharedGpu:
    """The fitted curves that ship with the package (made by `bench/extracts/fit_shared_gpu.py`)."""
    text = files("templates_lib").joinpath("data", *FILE.split("/")).read_bytes()
    return msgspec.json.decode(text, type=SharedGpu)


def part_of(gpu: Gpu, part: GpuPart, shared: SharedGpu | None = None) -> Gpu:
    """Return the part of a GPU as a GPU of less speed. All cards share as the A100 does, which alone was measured."""
    if part == WHOLE_GPU:
        return gpu
    shared = shared or load_shared_gpu()
    compute, bandwidth = shared.compute(part.compute), shared.bandwidth(part.compute) * part.bandwidth
    return replace(
        gpu,
        peak_bf16_tflops=gpu.peak_bf16_tflops * compute,
        peak_fp8_tflops=gpu.peak_fp8_tflops * compute,
        hbm_gbps=gpu.hbm_gbps * bandwidth,
    )
