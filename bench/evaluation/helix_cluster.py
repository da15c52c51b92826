"""Helix's largest set-up as facts: 42 nodes, its own placement of LLaMA-2-70B on them, and what a node sustains.

"High GPU-Heterogeneity Cluster" of Helix (ASPLOS 2025), which section 6.6 of the Coral paper compares with. Source:
Thesys-lab/Helix-ASPLOS25, artifact of 2025, commit 148b733080c0c5d3ddca0fe3c985b2e52a7f7b35, Apache-2.0: cluster and
placement from artifact_evaluation, times and limits per layer (fp16, vLLM, Google Cloud) from simulator/model_manager;
extracted by bench/extracts/make_helix.py.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from templates_lib.values.node_config import config_id

MODEL = "LLaMA-2-70B"
LAYERS = 80
HIDDEN_SIZE = 8192
NETWORK_GBPS = 10.0
"""Of every node (helix_machine_profiles.ini)."""
ACTIVATION_BYTES = 2
PREFILL_S = 2.09
DECODE_S_PER_TOKEN = 0.73
"""Median latencies of Helix's online serving on this cluster, as the Coral paper quotes them (section 6.6)."""
SHAPE = "helix-conversation"
"""The requests that Helix was measured with, in the catalogue of workload shapes."""


@dataclass(frozen=True, slots=True)
class HelixNode:
    """One node of the cluster with the consecutive layers that Helix gave it."""

    gpu: str
    gpu_count: int
    first_layer: int
    layers: int

    @property
    def config(self) -> str:
        return config_id(self.gpu, self.gpu_count, NETWORK_GBPS)

    def requests_per_s(self, prompt_tokens: float, output_tokens: float) -> float:
        """The most requests of these mean lengths that the node passes through all its layers: the least of

        - compute: prompt tokens at the least measured time per token and layer, output tokens at that of the best
          decode batch within Helix's cap for the layers held;
        - network: every token's activations enter the node once;
        - memory, by Little's law: a request holds one of the node's decode slots (the cap follows from its KV blocks)
          from its prompt to its last token, at the latencies that Helix measured.
        """
        rates = _rates()[self.gpu, self.gpu_count, self.layers]
        compute_ms = prompt_tokens * rates.prefill_ms_per_token_layer + output_tokens * rates.decode_ms_per_token_layer
        sent_bits = (prompt_tokens + output_tokens) * HIDDEN_SIZE * ACTIVATION_BYTES * 8
        resident_s = PREFILL_S + output_tokens * DECODE_S_PER_TOKEN
        busy_s = max(self.layers * compute_ms / 1000, sent_bits / (NETWORK_GBPS * 1e9))
        return min(1 / busy_s, rates.max_decode_batch / resident_s)


@dataclass(frozen=True, slots=True)
class _Rates:
    prefill_ms_per_token_layer: float
    decode_ms_per_token_layer: float
    max_decode_batch: int


@cache
def helix_nodes() -> tuple[HelixNode, ...]:
    """The placement, in the cluster's order of nodes."""
    return tuple(
        HelixNode(row["gpu"], int(row["gpu_count"]), int(row["first_layer"]), int(row["layers"]))
        for row in _rows("nodes.csv")
    )


@cache
def _rates() -> dict[tuple[str, int, int], _Rates]:
    """By (GPU, GPUs, layers held)."""
    return {
        (row["gpu"], int(row["gpu_count"]), int(row["layers"])): _Rates(
            float(row["prefill_ms_per_token_layer"]),
            float(row["decode_ms_per_token_layer"]),
            int(row["max_decode_batch"]),
        )
        for row in _rows("layer_ms.csv")
    }


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = (Path(__file__).parent / "helix_data" / name).read_text()
    yield from csv.DictReader(text.splitlines())
