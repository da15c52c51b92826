"""Make bench/evaluation/helix_data: Helix's largest cluster, its placement of LLaMA-2-70B, and what each node sustains.

    python bench/extracts/make_helix.py [PERF_FOLDER]

Source: Thesys-lab/Helix-ASPLOS25 @148b733080c0c5d3ddca0fe3c985b2e52a7f7b35 (Apache-2.0), artifact_evaluation and
simulator/model_manager.
"""

import configparser
import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "bench" / "evaluation" / "helix_data"
MODEL = "llama2_70b"
GPU_NAMES = {"A100-40GB": "A100-40", "V100-16GB": "V100", "L4": "L4", "T4": "T4"}
NODE_TYPES = {
    "A100": ("A100-40", 1),
    "V100": ("V100", 1),
    "L4": ("L4", 1),
    "L4x2": ("L4", 2),
    "T4": ("T4", 1),
    "T4x2": ("T4", 2),
    "T4x4": ("T4", 4),
}

Config = tuple[str, int]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as text:
        return [row for row in csv.DictReader(text) if row["model"] == MODEL]


def write(name: str, header: tuple[str, ...], content: list[tuple[object, ...]]) -> None:
    with (TARGET / name).open("w", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(content)
    print(f"{name}: {len(content)} rows")


def placement(folder: Path) -> list[tuple[object, ...]]:
    """Node, GPU, count, first layer, layers. The solution numbers nodes from `offset` (0 and 1 are source and sink)."""
    cluster, solution = configparser.ConfigParser(), configparser.ConfigParser()
    cluster.read(folder / "helix_cluster_high_heterogeneity_42.ini")
    solution.read(folder / "helix_placement_llama70b_high_heterogeneity.ini")
    offset = int(solution["Settings"]["offset"])
    nodes: list[tuple[object, ...]] = []
    for index in range(int(cluster["NodeNames"]["total_compute_nodes"])):
        layers = json.loads(solution["Solution"][f"compute_node_{index + offset}"])
        assert layers == list(range(layers[0], layers[0] + len(layers)))
        nodes.append((index, *NODE_TYPES[cluster[f"ComputeNode-{index}"]["type"]], layers[0], len(layers)))
    return nodes


def layer_times(folder: Path) -> tuple[dict[Config, float], dict[Config, list[tuple[float, float]]]]:
    """Least prefill ms per token and layer; (requests, ms per layer) of every measured decode step."""
    prefill: dict[Config, float] = {}
    decode: defaultdict[Config, list[tuple[float, float]]] = defaultdict(list)
    for row in rows(folder / "helix_layer_profile.csv"):
        config = GPU_NAMES[row["gpu"]], int(row["tp_gpus"])
        batch, milliseconds = float(row["batch_tokens"]), float(row["ms_per_layer"])
        if row["phase"] == "prefill":
            prefill[config] = min(prefill.get(config, float("inf")), milliseconds / batch)
        else:
            decode[config].append((batch, milliseconds))
    return prefill, decode


def main(folder: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    nodes = placement(folder)
    write("nodes.csv", ("node", "gpu", "gpu_count", "first_layer", "layers"), nodes)
    prefill, decode = layer_times(folder)
    rates: list[tuple[object, ...]] = []
    for row in rows(folder / "helix_kv_limits.csv"):
        config = GPU_NAMES[row["gpu"]], int(row["tp_gpus"])
        cap = int(row["max_decode_batch"])
        best = min(ms / batch for batch, ms in decode[config] if batch <= cap)
        rates.append((*config, int(row["layers_held"]), cap, f"{prefill[config]:.6g}", f"{best:.6g}"))
    header = ("gpu", "gpu_count", "layers", "max_decode_batch")
    write("layer_ms.csv", (*header, "prefill_ms_per_token_layer", "decode_ms_per_token_layer"), rates)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "data" / "perf")
