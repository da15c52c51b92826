"""A seeded library and market of the size of the paper's extended set-up, for benches of the allocator alone.

Capacities are roofline-like (prefill by arithmetic, decode by memory bandwidth), sub-additive over up to six nodes,
and pruned as the real library is: a set that serves no more than two of its parts is left out.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.library import Library
from templates_lib.values.offer import Market, Offer
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.traffic import TrafficPrice
from templates_lib.values.work import Demand, Edge, Leg, Route, Unit, WorkClass

# (memory GiB, dense bf16 TFLOPS, HBM GB/s, $/h per GPU): data sheets and on-demand prices of late 2026, rounded.
GPUS = {
    "L4": (24, 121, 300, 0.70),
    "A10G": (24, 70, 600, 1.01),
    "L40S": (48, 362, 864, 1.86),
    "A100": (80, 312, 2039, 2.74),
    "H100": (80, 989, 3350, 5.90),
}
GPU_COUNTS = (1, 2, 4, 8)
# (name, billions of parameters, active billions, bytes a parameter, layers, KV bytes a token)
MODELS = (
    ("phi4-14b", 14.7, 14.7, 2.0, 40, 204_800),
    ("gpt-oss-20b", 20.9, 3.6, 0.62, 24, 49_152),
    ("qwen3-32b", 32.8, 32.8, 2.0, 64, 262_144),
    ("llama3-70b", 70.6, 70.6, 2.0, 80, 327_680),
    ("gpt-oss-120b", 116.8, 5.1, 0.56, 36, 73_728),
    ("qwen3-235b", 235.0, 22.0, 2.0, 94, 192_512),
)
PROMPT_TOKENS, OUTPUT_TOKENS = 1_000.0, 200.0
MAX_NODES = 6
RHO = 12.0


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    snapshot: Snapshot
    library: Library


def configs() -> tuple[str, ...]:
    return tuple(f"{gpu}:{count}/n50" for gpu in GPUS for count in GPU_COUNTS)


def multisets(size: int, most: int) -> NDArray[np.uint8]:
    """(sets, size): all multisets of 1 to `most` nodes."""
    parts = []
    for k in range(1, most + 1):
        chosen = np.array(list(itertools.combinations_with_replacement(range(size), k)), dtype=np.int64)
        counts = np.zeros((len(chosen), size), dtype=np.uint8)
        for column in range(k):
            counts[np.arange(len(chosen)), chosen[:, column]] += 1
        parts.append(counts)
    return np.concatenate(parts)


def node_rates(
    model: tuple[str, float, float, float, int, int], phase: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(memory GB, tokens/s were the node alone and large enough) by configuration."""
    _, _, active, width, _, kv = model
    memory, rate = [], []
    for gib, tflops, gbps, _ in GPUS.values():
        for count in GPU_COUNTS:
            scale = count * 0.93 ** np.log2(count)
            memory.append(gib * 1.0737 * count * 0.9)
            if phase == "prefill":
                rate.append(scale * tflops * 1e12 * 0.5 / (2 * active * 1e9))
            else:
                batch = 48.0 * gib / 80
                step = active * 1e9 * width * 1.5 + batch * kv * (PROMPT_TOKENS + OUTPUT_TOKENS / 2)
                rate.append(scale * batch * gbps * 1e9 * 0.6 / step)
    return np.array(memory), np.array(rate)


def capacities(sets: NDArray[np.uint8], memory: NDArray[np.float64], rate: NDArray[np.float64], layers: int,
               weight_gb: float, rng: np.random.Generator) -> NDArray[np.float64]:  # fmt: skip
    """Units/s of each set: what its nodes give together, less a share for joining them and for whole layers."""
    held = sets @ memory
    fits = (held >= 1.25 * weight_gb) & (held <= RHO * weight_gb + memory.min())
    count = sets.sum(axis=1)
    together = sets @ rate
    whole = np.floor(layers * 0.97 ** (count - 1) * rng.uniform(0.86, 1.0, len(sets))) / layers
    room = np.clip((held - weight_gb) / held * 1.6, 0.15, 1.0)
    return np.where(fits, together * whole * room, 0.0)


class Parts:
    """Which sets hold a single node or a pair, and what remains of them without it: the same for every class."""

    def __init__(self, sets: NDArray[np.uint8]) -> None:
        weights = np.random.default_rng(0).integers(1, 2**63, sets.shape[1], dtype=np.uint64)
        code = sets.astype(np.uint64) @ weights  # a hash that wraps around: sums of parts are sums of codes
        order = np.argsort(code)
        count = sets.sum(axis=1)
        self.of: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        """(part, sets that hold it and more, what remains of each or -1)"""
        for part in np.flatnonzero(count <= 2).tolist():
            held = np.flatnonzero(sets[part])
            inside = np.flatnonzero((sets[:, held] >= sets[part, held]).all(axis=1) & (count > count[part]))
            rest = code[inside] - code[part]
            at = order[np.minimum(np.searchsorted(code, rest, sorter=order), len(code) - 1)]
            self.of.append((part, inside, np.where(code[at] == rest, at, -1)))


def useful(parts: Parts, units: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Sets with capacity that a single node or a pair, taken out and added to the rest, does not reach."""
    keep = units > 0
    for part, inside, rest in parts.of:
        if units[part] > 0:
            together = units[part] + np.where(rest >= 0, units[rest], 0.0)
            keep[inside[together >= units[inside]]] = False
    return keep


def library(seed: int, *, copies: int = 1) -> Library:
    """Six models in two phases; `copies` > 1 serves every model again under slightly other capacities."""
    rng = np.random.default_rng(seed)
    names = configs()
    sets = multisets(len(names), MAX_NODES)
    parts = Parts(sets)
    nodes, classes, entry_class, units = [], [], [], []
    for copy in range(copies):
        for model in MODELS:
            name, total, _, width, layers, _ = model
            for phase in ("prefill", "decode"):
                memory, rate = node_rates(model, phase)
                capacity = capacities(sets, memory, rate, layers, total * width, rng)
                keep = useful(parts, capacity)
                unit = Unit.PROMPT_TOKEN if phase == "prefill" else Unit.OUTPUT_TOKEN
                served = f"{name}-{copy}"
                classes.append(WorkClass(f"{served}/{phase}", served, phase, unit, "bench", 1000.0))
                nodes.append(sets[keep])
                units.append(capacity[keep])
                entry_class.append(np.full(int(keep.sum()), len(classes) - 1, dtype=np.int16))
    size = sum(len(n) for n in nodes)
    ids = np.array([f"{i:032x}".encode() for i in range(size)], dtype="S32")
    index = np.arange(size, dtype=np.int32)
    return Library(
        f"synthetic-{seed}-{copies}", "synthetic", names, tuple(classes), ids, np.concatenate(nodes), index, index,
        np.concatenate(entry_class), np.concatenate(units), ("synthetic",), np.zeros(size, dtype=np.int16),
    )  # fmt: skip


def snapshot(lib: Library, seed: int, *, zones: int, requests_per_s: float, available: float,
             settings: Settings) -> Snapshot:  # fmt: skip
    """`available` is the mean number of nodes of a configuration in a zone."""
    rng = np.random.default_rng(seed + 1)
    offers = []
    for z in range(zones):
        for config in lib.configs:
            gpu, rest = config.split(":")
            count = int(rest.split("/")[0])
            usd = round(GPUS[gpu][3] * count * float(rng.uniform(0.9, 1.15)), 3)
            have = int(rng.poisson(available / count**0.5))
            offers.append(
                Offer("cloud", f"z{z}", f"z{z}", config, config, Market.ON_DEMAND, usd, have, source="synthetic")
            )
    served = sorted({c.component for c in lib.classes})
    kv = {m[0]: m[5] for m in MODELS}
    routes, demand = [], []
    for name in served:
        legs = (Leg(f"{name}/prefill", PROMPT_TOKENS), Leg(f"{name}/decode", OUTPUT_TOKENS))
        edge = Edge(0, 1, kv[name.rsplit("-", 1)[0]] * PROMPT_TOKENS)
        routes.append(Route(f"{name}/split", name, "chat", legs, (edge,)))
        demand.append(Demand(name, "chat", requests_per_s * float(rng.uniform(0.8, 1.2))))
    pairs = itertools.permutations(range(zones), 2)
    traffic = tuple(TrafficPrice(f"cloud/z{a}", f"cloud/z{b}", 0.02) for a, b in pairs)
    return Snapshot(
        f"synthetic-{seed}", "2026-11-21T00:00:00Z", tuple(offers), (), traffic, (), tuple(routes), tuple(demand),
        settings, lib.version, lib.cost_model_fingerprint,
    )  # fmt: skip
