"""A GPU type: its shape, never its price."""

from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator as its data sheet describes it.

    `_gbps` is gigabits per second in every module of Medley, memory included (H100 SXM: 26,800), so that one
    suffix never means two things; use the `*_bytes_per_s` properties in formulas.
    """

    name: str
    vendor: str
    compute_capability: str
    dtypes: tuple[str, ...]
    memory_gib: float
    peak_bf16_tflops: float
    """Dense bf16 (fp16 where the card has no bf16, fp32 where it has neither) without sparsity."""
    peak_fp8_tflops: float
    """Dense fp8, or 0 where the card has none."""
    hbm_gbps: float
    source: str

    @property
    def memory_bytes(self) -> float:
        return self.memory_gib * GIB

    @property
    def hbm_bytes_per_s(self) -> float:
        return self.hbm_gbps * 1e9 / 8
