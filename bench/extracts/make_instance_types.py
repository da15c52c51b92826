"""Write templates_lib/data/hardware/instance_types.csv: the shapes of the machines that five clouds rent.

Shapes (GPUs, vCPUs, memory, AWS network) come from the price files of the sibling directory `shared`; what those do not
state (network of the other clouds, how GPUs are joined) is below, with its source.

Run: python -m bench.extracts.make_instance_types
"""

import re

from bench.extracts.csv_files import ROOT, RUNPOD, RUNPOD_SOURCE, SHARED, read, write

PRICES = SHARED / "prices"
OUT = ROOT / "templates_lib" / "data" / "hardware" / "instance_types.csv"

COLUMNS = (
    *("cloud", "instance_type", "gpu", "gpu_count", "vcpus", "host_memory_gib", "network_gbps"),
    *("interconnect", "intra_node_gbps", "quota_family", "source", "date"),
)

# One direction, one GPU towards its peers, gigabits per second: PCIe x16 of three generations, NVLink, Infinity Fabric.
INTRA_GBPS = {
    "pcie3": 128,
    "pcie4": 256,
    "pcie5": 512,
    "nvlink2": 1200,
    "nvlink3": 2400,
    "nvlink4": 3600,
    "nvlink5": 7200,
    "xgmi3": 3584,
}
INTERCONNECT = {
    "T4": "pcie3",
    "L4": "pcie4",
    "A10G": "pcie4",
    "V100": "nvlink2",
    "V100-32": "nvlink2",
    "A40": "pcie4",
    "L40": "pcie4",
    "L40S": "pcie4",
    "RTXPRO6000": "pcie5",
    "A100-40": "nvlink3",
    "A100-80": "nvlink3",
    "H100": "nvlink4",
    "H200": "nvlink4",
    "B200": "nvlink5",
    "MI300X": "xgmi3",
}
AWS_GPU = {
    "NVIDIA T4": "T4",
    "NVIDIA L4": "L4",
    "NVIDIA A10G": "A10G",
    "NVIDIA L40S": "L40S",
    "NVIDIA RTX PRO 6000 Blackwell": "RTXPRO6000",
    "NVIDIA V100": "V100",
    "NVIDIA A100": "A100-40",
    "NVIDIA H100": "H100",
    "NVIDIA H200": "H200",
    "NVIDIA B200 Blackwell": "B200",
}
AWS_GPU_OF_TYPE = {"p3dn.24xlarge": "V100-32", "p4de.24xlarge": "A100-80"}
# Service Quotas: "Running On-Demand <family> instances", counted in vCPUs per region (spot has a pool of its own).
AWS_FAMILY = {"g": "G-VT", "p2": "P", "p3": "P", "p4": "P4", "p5": "P5", "p6": "P6"}

GCP_NETWORK = {  # cloud.google.com/compute/docs/gpus/gpu-network-bandwidth
    "g2-standard-4": 10, "g2-standard-8": 16, "g2-standard-12": 16, "g2-standard-16": 32, "g2-standard-24": 32,
    "g2-standard-32": 32, "g2-standard-48": 50, "g2-standard-96": 100,
    "a2-highgpu-1g": 24, "a2-highgpu-2g": 32, "a2-highgpu-4g": 50, "a2-highgpu-8g": 100,
    "a2-ultragpu-1g": 24, "a2-ultragpu-2g": 32, "a2-ultragpu-4g": 50, "a2-ultragpu-8g": 100,
    "a3-highgpu-1g": 25, "a3-highgpu-2g": 50, "a3-highgpu-4g": 100, "a3-highgpu-8g": 1000,
    "a3-megagpu-8g": 1800, "a3-ultragpu-8g": 3600, "a4-highgpu-8g": 3600,
}  # fmt: skip
GCP_FAMILY = {
    "L4": "NVIDIA_L4_GPUS", "A100-40": "NVIDIA_A100_GPUS", "A100-80": "NVIDIA_A100_80GB_GPUS",
    "H100": "NVIDIA_H100_GPUS", "H200": "NVIDIA_H200_GPUS", "B200": "NVIDIA_B200_GPUS",
}  # fmt: skip

# Left out: NC A100 v4 (A100 PCIe), NC H100 v5 (H100 NVL, 94 GB), NCv3 (retired 2025-09), NV (slices of A10), NC RTX PRO
# 6000 v6 (host shape not in the sources).
AZURE = {  # type: (gpu, network Gbit/s, family); learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated
    "Standard_NC4as_T4_v3": ("T4", 8, "NCASv3_T4"),
    "Standard_NC8as_T4_v3": ("T4", 8, "NCASv3_T4"),
    "Standard_NC16as_T4_v3": ("T4", 8, "NCASv3_T4"),
    "Standard_NC64as_T4_v3": ("T4", 32, "NCASv3_T4"),
    "Standard_ND40rs_v2": ("V100-32", 100, "NDSv2"),
    "Standard_ND96asr_v4": ("A100-40", 1600, "NDASv4_A100"),
    "Standard_ND96amsr_A100_v4": ("A100-80", 1600, "NDAMSv4_A100"),
    "Standard_ND96isr_H100_v5": ("H100", 3200, "NDISRH100v5"),
    "Standard_ND96isr_H200_v5": ("H200", 3200, "NDISRH200v5"),
    "Standard_ND96isr_MI300X_v5": ("MI300X", 3200, "NDISRMI300Xv5"),
}

# Lambda and RunPod promise no bandwidth between rented machines: network 0, class n0. Lambda's gpu_{1,2,4}x_a100 and
# gpu_1x_h100_pcie are PCIe cards and left out.
LAMBDA = {
    "gpu_8x_v100": "V100",
    "gpu_8x_v100_n": "V100",
    "gpu_1x_a100_sxm4": "A100-40",
    "gpu_8x_a100": "A100-40",
    "gpu_8x_a100_80gb_sxm4": "A100-80",
    "gpu_1x_h100_sxm5": "H100",
    "gpu_2x_h100_sxm5": "H100",
    "gpu_4x_h100_sxm5": "H100",
    "gpu_8x_h100_sxm5": "H100",
    "gpu_1x_b200_sxm6": "B200",
    "gpu_2x_b200_sxm6": "B200",
    "gpu_4x_b200_sxm6": "B200",
    "gpu_8x_b200_sxm6": "B200",
}


def machine(
    cloud: str, name: str, gpu: str, count: int, vcpus: float, memory: float, network: float, family: str, source: str,
    date: str,
) -> dict[str, object]:  # fmt: skip
    link = INTERCONNECT[gpu]
    cells = (cloud, name, gpu, count, f"{vcpus:g}", f"{memory:g}", f"{network:g}", link, INTRA_GBPS[link], family)
    return dict(zip(COLUMNS, (*cells, source, date), strict=True))


def aws() -> list[dict[str, object]]:
    """Network is as AWS states it: of "Up to 10 Gigabit" the 10, although bursts end (baseline of g6.xlarge: 2.5)."""
    found: dict[str, dict[str, object]] = {}
    for row in read(PRICES / "aws_ondemand_by_region_2025-11-30.csv"):
        name, gpu = row["instance_type"], AWS_GPU_OF_TYPE.get(row["instance_type"], AWS_GPU.get(row["gpu"], ""))
        if not gpu or name in found:
            continue
        network = float(re.search(r"(\d+)", row["network"]).group(1))  # type: ignore[union-attr]
        memory = float(row["memory"].split()[0])
        family = next(f for prefix, f in AWS_FAMILY.items() if name.startswith(prefix))
        source = "tsaol/aws-gpu data/all_gpu_instances.js"
        found[name] = machine(
            "aws", name, gpu, int(row["gpu_count"]), float(row["vcpus"]), memory, network, family, source, "2025-11-30"
        )
    found["p5e.48xlarge"] = machine(
        "aws", "p5e.48xlarge", "H200", 8, 192, 2048, 3200, "P5", "skypilot-catalog v9 aws; network: AWS P5 page", "2026"
    )
    return list(found.values())


def gcp() -> list[dict[str, object]]:
    source = "anycloud-sh/catalog gcp/vms.csv; network: cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"
    names = {"A100": "A100-40", "A100-80GB": "A100-80", "H100-MEGA": "H100"}
    found: dict[str, dict[str, object]] = {}
    for row in read(PRICES / "gcp_gpu_vm_totals_2026-05-20.csv"):
        name, gpu = row["InstanceType"], names.get(row["AcceleratorName"], row["AcceleratorName"])
        if name in GCP_NETWORK and name not in found:
            shape = (int(row["AcceleratorCount"]), float(row["vCPUs"]), float(row["MemoryGiB"]))
            found[name] = machine("gcp", name, gpu, *shape, GCP_NETWORK[name], GCP_FAMILY[gpu], source, "2026-05-20")
    return list(found.values())


def azure() -> list[dict[str, object]]:
    source = "anycloud-sh/catalog azure/vms.csv; network: learn.microsoft.com GPU sizes (InfiniBand where it has it)"
    found: dict[str, dict[str, object]] = {}
    for row in read(PRICES / "azure_vms_gpu_2026-05-20.csv"):
        name = row["InstanceType"]
        if name in AZURE and name not in found:
            gpu, network, family = AZURE[name]
            shape = (int(float(row["AcceleratorCount"])), float(row["vCPUs"]), float(row["MemoryGiB"]))
            found[name] = machine("azure", name, gpu, *shape, network, family, source, "2026-05-20")
    return list(found.values())


def small_clouds() -> list[dict[str, object]]:
    made = []
    seen: set[str] = set()
    for row in read(PRICES / "lambda_vms_gpu_2026-05-07.csv"):
        name = row["InstanceType"]
        if name in LAMBDA and name not in seen:
            seen.add(name)
            shape = (int(float(row["AcceleratorCount"])), float(row["vCPUs"]), float(row["MemoryGiB"]))
            made.append(
                machine("lambda", name, LAMBDA[name], *shape, 0, "", "anycloud-sh/catalog lambda/vms.csv", "2026-05-07")
            )
    for row in read(RUNPOD):
        card, gpu, vcpus, memory = row["card"], row["gpu"], float(row["vcpus"]), float(row["memory_gib"])
        made += [
            machine("runpod", f"{n}x_{card}_SECURE", gpu, n, vcpus * n, memory * n, 0, "", RUNPOD_SOURCE, "2026")
            for n in (1, 2, 4, 8)
        ]
    return made


def main() -> None:
    machines = sorted(aws() + gcp() + azure() + small_clouds(), key=lambda m: (m["cloud"], m["instance_type"]))
    write(OUT, COLUMNS, [[m[column] for column in COLUMNS] for m in machines])
    print(f"{len(machines)} instance types -> {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
