"""NVIDIA's measured kernel times, as `aiconfigurator-core` (Apache-2.0; extra `kernels`) ships them.

The package keeps a Parquet file per (system, kind of kernel, framework, release) and looks one shape up at a time, in
Rust; templates ask for arrays of thousands of steps, so its files are read and interpolated here.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.install_hint import install_hint

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]
PACKAGE, DISTRIBUTION = "aiconfigurator_core", "aiconfigurator-core"
NOT_INSTALLED = f"kernel times need {DISTRIBUTION}, which is not installed: {install_hint('kernels')}"
SYSTEMS = {
    "A100-80": "a100_sxm",
    "B200": "b200_sxm",
    "H100": "h100_sxm",
    "H200": "h200_sxm",
    "L40S": "l40s",
    "RTXPRO6000": "rtx_pro_6000_server",
}
"""GPU of the catalogue → the package's system whose kernels were timed on that very card."""
FRAMEWORKS = {"vllm": "vllm", "torch": "vllm", "sglang": "sglang", "trtllm": "trtllm"}
"""Engine → the framework whose kernels are its own, or stand in: the torch engine is estimated from vLLM."""


COLUMNS = frozenset(
    ("latency", "gemm_dtype", "m", "n", "k", "attn_dtype", "kv_cache_dtype", "window_size", "head_dim", "num_heads",
     "num_key_value_heads", "batch_size", "isl", "step", "moe_dtype", "hidden_size", "inter_size", "topk",
     "num_experts", "moe_tp_size", "moe_ep_size", "num_tokens", "backend", "num_gpus", "message_size")
)  # fmt: skip
"""Those of the package's files that are read."""


def installed_release() -> str:
    """Release of the package; empty where it is not installed."""
    if find_spec(PACKAGE) is None:
        return ""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


FILES = {
    "gemm": ("gemm_perf.parquet",),
    "attention": ("context_attention_perf.parquet", "generation_attention_perf.parquet"),
    "moe": ("moe_perf.parquet",),
    "comm": ("custom_allreduce_perf.parquet",),
}
"""Kind of kernel → the package's files of it, in a folder a framework and release."""


@dataclass(frozen=True, slots=True, eq=False)
class Shaped:
    """Times of one kernel over one or two sizes. Arrays (n,)."""

    x: Floats
    y: Floats
    seconds: Floats


@dataclass(frozen=True, slots=True, eq=False)
class KernelTables:
    """What was timed on one system under one framework; kinds that were not are empty."""

    system: str
    framework: str
    release: str
    products: dict[str, tuple[Floats, Floats, Floats, Floats]]
    """Data type → (rows (a,), columns (b,), depths (c,), seconds (a, b, c) with NaN where nothing was measured)."""
    prefill: dict[tuple[str, int, int, int], Shaped]
    """(cache type, head width, heads, KV heads) of one GPU → seconds over prompts at once and their length."""
    decode: dict[tuple[str, int, int, int], Shaped]
    """The same → seconds over requests at once and cached tokens."""
    experts: dict[tuple[str, int, int, int, int, int, int], Shaped]
    """(data type, hidden size, expert width, active, experts, tensor and expert parallel ranks) → seconds over tokens;
    the median of the routings that were timed."""
    all_reduce: dict[int, Shaped]
    """Peers → seconds over bytes."""


@cache
def kernel_tables(system: str, framework: str) -> KernelTables:
    """The tables of a system under a framework. Raises LookupError, saying how to get it, without the package."""
    release, root = installed_release(), _folder(system)
    if not release:
        raise LookupError(NOT_INSTALLED)
    return KernelTables(
        system,
        framework,
        release,
        _products(_newest(root / "gemm" / framework, "gemm_perf.parquet")),
        _attention(_newest(root / "attention" / framework, "context_attention_perf.parquet"), "isl", 0),
        _attention(_newest(root / "attention" / framework, "generation_attention_perf.parquet"), "step", 1),
        _experts(_all(root / "moe" / framework, "moe_perf.parquet")),
        _all_reduce(_newest(root / "comm" / framework, "custom_allreduce_perf.parquet")),
    )


def timed_kernels(system: str) -> dict[str, dict[str, str]]:
    """Framework → kind of kernel (`gemm`, `attention`, …) → newest release of the framework that was timed on a system.
    Raises LookupError as `kernel_tables`. Nothing of the tables is read."""
    root = _folder(system)
    found: dict[str, dict[str, str]] = {}
    for kind, names in FILES.items():
        for framework in sorted({*FRAMEWORKS.values()}):
            folders = {path.parent for name in names for path in (root / kind / framework).glob(f"*/{name}")}
            if folders:
                found.setdefault(framework, {})[kind] = max((path.name for path in folders), key=_release_key)
    return found


def _folder(system: str) -> Path:
    """Where the package keeps what was timed on a system. Raises LookupError without the package."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(NOT_INSTALLED)
    return Path(spec.submodule_search_locations[0]) / "systems" / "data" / system


def _all(folder: Path, name: str) -> list[Columns]:
    """The tables of all releases in a folder, the newest first."""
    from pyarrow import parquet

    files = sorted(folder.glob(f"*/{name}"), key=lambda path: _release_key(path.parent.name), reverse=True)
    return [_columns(parquet.read_table(path, columns=_used(path))) for path in files]


def _used(path: Path) -> list[str]:
    from pyarrow import parquet

    return [name for name in parquet.read_schema(path).names if name in COLUMNS]


def _columns(table: Any) -> Columns:
    found: Columns = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if str(column.type) in ("string", "large_string"):
            column = column.dictionary_encode()
        if str(column.type).startswith("dictionary"):
            found[name] = np.array(column.dictionary.to_pylist())[column.indices.to_numpy(zero_copy_only=False)]
        else:
            found[name] = column.to_numpy(zero_copy_only=False)
    return found


def _newest(folder: Path, name: str) -> Columns | None:
    return next(iter(_all(folder, name)), None)


def _release_key(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def _products(rows: Columns | None) -> dict[str, tuple[Floats, Floats, Floats, Floats]]:
    found = {}
    for dtype, own in _split(rows, "gemm_dtype"):
        axes, places = zip(*(np.unique(own[c], return_inverse=True) for c in ("m", "n", "k")), strict=True)
        seconds = np.full([len(axis) for axis in axes], np.inf)
        np.minimum.at(seconds, places, own["latency"] / 1e3)
        seconds[np.isinf(seconds)] = np.nan
        m, n, k = (axis.astype(np.float64) for axis in axes)
        found[dtype] = (m, n, k, seconds)
    return found


def _attention(rows: Columns | None, length: str, ahead: int) -> dict[tuple[str, int, int, int], Shaped]:
    """Attention to all tokens, 16-bit products; `ahead`: tokens that a step of `length` attends to beyond it."""
    if rows is None:
        return {}
    whole = rows["attn_dtype"] == "bfloat16"
    if "window_size" in rows:
        whole = whole & (rows["window_size"] == 0)
    kept = {name: column[whole] for name, column in rows.items()}
    names = ("kv_cache_dtype", "head_dim", "num_heads", "num_key_value_heads")
    return {
        (str(dtype), int(width), int(heads), int(kv)): Shaped(
            own["batch_size"].astype(np.float64), own[length] + float(ahead), own["latency"] / 1e3
        )
        for (dtype, width, heads, kv), own in _groups(kept, names)
    }


def _experts(tables: list[Columns]) -> dict[tuple[str, int, int, int, int, int, int], Shaped]:
    names = ("moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    found: dict[tuple[str, int, int, int, int, int, int], Shaped] = {}
    for rows in tables:
        for (dtype, *sizes), own in _groups(rows, names):
            hidden, width, active, count, tp, ep = (int(size) for size in sizes)
            order = np.lexsort((own["latency"], own["num_tokens"]))
            tokens, first, times = np.unique(own["num_tokens"][order], return_index=True, return_counts=True)
            median = own["latency"][order][first + (times - 1) // 2]
            shaped = Shaped(tokens.astype(np.float64), np.zeros(len(tokens)), median / 1e3)
            found.setdefault((str(dtype), hidden, width, active, count, tp, ep), shaped)
    return found


def _all_reduce(rows: Columns | None) -> dict[int, Shaped]:
    """Of 16-bit elements, in CUDA graphs where both ways were timed."""
    if rows is None:
        return {}
    ways = rows.get("backend", np.array([""] * len(rows["latency"])))
    graph = np.array([str(way).endswith("_graph") for way in ways])
    kept = {name: column[graph] for name, column in rows.items()} if graph.any() else rows
    return {
        int(peers): Shaped(own["message_size"] * 2.0, np.zeros(len(own["latency"])), own["latency"] / 1e3)
        for (peers,), own in _groups(kept, ("num_gpus",))
    }


def _split(rows: Columns | None, name: str) -> list[tuple[str, Columns]]:
    return [] if rows is None else [(str(key), own) for (key,), own in _groups(rows, (name,))]


def _groups(rows: Columns, names: tuple[str, ...]) -> list[tuple[tuple[Any, ...], Columns]]:
    """Rows by what they have in the named columns."""
    codes = np.zeros(len(rows["latency"]), dtype=np.int64)
    for name in names:
        values, place = np.unique(rows[name], return_inverse=True)
        codes = codes * len(values) + place
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    used = {name for name in rows if rows[name].dtype.kind in "if"} | set(names)
    return [
        (tuple(rows[name][at[0]] for name in names), {name: rows[name][at] for name in used})
        for at in np.split(order, starts[1:])
        if len(at)
    ]
