"""Writes templates_lib/data/perf/systems.csv: the machines behind the measured end-to-end rows."""

import csv
from pathlib import Path

from perf_tables import PERF

OUT = Path(__file__).resolve().parents[2] / "templates_lib" / "data" / "perf" / "systems.csv"
KERNELS = {
    "a100_pcie": "A100-80", "a100_sxm": "A100-80", "b200_sxm": "B200", "b300_sxm": "B200", "gb200": "B200",
    "gb300": "B200", "h100_pcie": "H100", "h100_sxm": "H100", "h200_sxm": "H200", "l4": "L4", "l40s": "L40S",
    "rtx_pro_6000_server": "RTXPRO6000",
}  # fmt: skip
"""The catalogue GPU whose fitted efficiencies a system is computed with."""
FP4 = ("b200_sxm", "b300_sxm", "gb200", "gb300", "rtx_pro_6000_server")
SOURCE = "aiconf_system_specs.csv (PyPI aiconfigurator-core 0.12.0, systems/*.yaml, Apache-2.0), read 2026-11-21"


def main() -> None:
    with (PERF / "aiconf_system_specs.csv").open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["system"] in KERNELS]
    columns = ("system", "kernels_of", "memory_gib", "peak_bf16_tflops", "peak_fp8_tflops", "hbm_gbps",
               "intra_node_gbps", "gpus_in_link", "fp4", "source")  # fmt: skip
    with OUT.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            fp8 = float(row["gpu_fp8_tc_flops"] or 0)
            writer.writerow((
                row["system"], KERNELS[row["system"]], round(float(row["gpu_mem_capacity"]) / 1024**3, 2),
                float(row["gpu_bfloat16_tc_flops"]) / 1e12, fp8 / 1e12, round(float(row["gpu_mem_bw"]) * 8e-9, 3),
                round(float(row["node_intra_node_bw"]) * 8e-9, 3),
                int(float(row["node_num_gpus_per_rack"] or row["node_num_gpus_per_node"])),
                "yes" if row["system"] in FP4 else "no", SOURCE,
            ))  # fmt: skip


if __name__ == "__main__":
    main()
