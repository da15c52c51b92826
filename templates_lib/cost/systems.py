"""The machines of the measured deployments: data-sheet numbers under the names that the measurements use."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig


@dataclass(frozen=True, slots=True)
class System:
    """A measured machine type. Its GPU is named for the catalogue GPU whose fitted efficiencies it is timed with."""

    name: str
    gpu: Gpu
    intra_node_gbps: float
    gpus_in_link: int
    """GPUs that reach each other at `intra_node_gbps` (72 in an NVL72 rack)."""

    def node(self, gpu_count: int) -> NodeConfig:
        """`gpu_count` GPUs of this system as one node."""
        return NodeConfig(self.name, self.gpu.name, gpu_count, self.intra_node_gbps, 0.0, 0.0)


@cache
def load_systems() -> dict[str, System]:
    """System name → system (`data/perf/systems.csv`; made by bench/extracts/systems.py)."""
    text = files("templates_lib").joinpath("data", "perf", "systems.csv").read_text(encoding="utf-8")
    return {row["system"]: _system(row) for row in csv.DictReader(text.splitlines())}


def _system(row: dict[str, str]) -> System:
    dtypes = ("bf16", "fp16", "int8", *(("fp8",) if float(row["peak_fp8_tflops"]) else ()))
    gpu = Gpu(
        name=row["kernels_of"],
        vendor="nvidia",
        compute_capability="",
        dtypes=(*dtypes, "fp4") if row["fp4"] == "yes" else dtypes,
        memory_gib=float(row["memory_gib"]),
        peak_bf16_tflops=float(row["peak_bf16_tflops"]),
        peak_fp8_tflops=float(row["peak_fp8_tflops"]),
        hbm_gbps=float(row["hbm_gbps"]),
        source=row["source"],
    )
    return System(row["system"], gpu, float(row["intra_node_gbps"]), int(row["gpus_in_link"]))
