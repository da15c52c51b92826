"""A measured deployment: one row of an end-to-end table, in the terms of the cost model."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from templates_lib.cost.systems import System, load_systems
from templates_lib.models.catalogue import measured_configs
from templates_lib.models.config_fields import UnsupportedModelError
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Parallel

MOST_RANKS = 1024
CONCURRENCY = re.compile(r"silicon_concurrency=(\d{1,7})")
BLOCK_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
QUANTIZATION: dict[str, dict[str, Any] | None] = {
    "": None,
    "bf16": None,
    "bfloat16": None,
    "fp8": {"quant_method": "fp8"},
    "fp8_block": BLOCK_FP8,
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "int4_wo": {"quant_method": "gptq", "bits": 4, "group_size": 128},
}
QUANTIZATION_OF_PRECISION = {"": "", "bf16": "bf16", "fp8": "fp8", "fp4": "nvfp4", "int4": "int4_wo"}


class InexpressibleRowError(ValueError):
    """The cost model has no word for the row's GPU, architecture or precision."""


class UnreadableRowError(ValueError):
    """A cell that must be a number is not one."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Equal engine instances of one phase; `count` is 0 where the row does not say how many."""

    count: int
    parallel: Parallel


@dataclass(frozen=True, slots=True)
class Deployment:
    """One measured deployment. `decode` is None for aggregated serving, where `prefill` does both phases."""

    model: ModelSpec
    model_path: str
    system: System
    backend: str
    release: str
    """Release of the backend; empty where the row does not say."""
    prompt_tokens: float
    output_tokens: float
    concurrency: float
    """Requests in flight over the whole deployment (closed loop)."""
    prefill: Worker
    decode: Worker | None
    ttft_ms: float
    tpot_ms: float

    @property
    def group(self) -> tuple[str, ...]:
        """Return what stays when only batch and lengths change: (model, GPU, backend, parallel shape)."""
        shape = (self.prefill.parallel, self.prefill.count, self.decode)
        return (self.model_path, self.system.name, self.backend, self.model.dtype, repr(shape))


def deployment_of(row: Mapping[str, str]) -> Deployment:
    """Reads a row with the columns of aiconf_silicon_end_to_end.csv.gz.

    Raises InexpressibleRowError for a GPU, architecture or precision that the model cannot express, UnreadableRowError
    for broken cells.
    """
    system = load_systems().get(row.get("system", ""))
    if system is None:
        raise InexpressibleRowError(f"GPU {row.get('system', '')[:40]!r} has no data sheet here")
    model = _model(row)
    aggregated = row.get("mode", "agg") != "disagg"
    if aggregated:
        prefill, decode = Worker(1, _parallel(row, "", model, system)), None
    else:
        prefill = Worker(int(_number(row, "prefill_num_workers", 0)), _parallel(row, "prefill_", model, system))
        decode = Worker(int(_number(row, "decode_num_workers", 0)), _parallel(row, "decode_", model, system))
    return Deployment(
        model=model,
        model_path=row["model_path"],
        system=system,
        backend=row.get("backend", ""),
        release=row.get("backend_version", "").strip(),
        prompt_tokens=max(1.0, _number(row, "isl")),
        output_tokens=max(1.0, _number(row, "osl")),
        concurrency=max(1.0, _concurrency(row, prefill, decode)),
        prefill=prefill,
        decode=decode,
        ttft_ms=_number(row, "silicon_ttft_ms"),
        tpot_ms=_number(row, "silicon_tpot_ms"),
    )


def _model(row: Mapping[str, str]) -> ModelSpec:
    """The model at the precision that the row states, with a KV cache of 8 bits where the weights are floats of fewer
    than 16: so the benchmarks behind the rows start their engines, and clients that a wider cache could not hold did
    not wait."""
    model = _weights(row)
    return replace(model, kv_dtype="fp8") if model.dtype in ("fp8", "nvfp4") else model


def _weights(row: Mapping[str, str]) -> ModelSpec:
    """4-bit checkpoints keep the format they are published in, but for those in 4-bit integers whose rows say NVFP4:
    others publish them so, with the same matrices left in 16 bits. (Rows of gpt-oss say NVFP4 for its MXFP4.)"""
    path = row.get("model_path", "")
    config = measured_configs().get(path)
    if config is None:
        raise InexpressibleRowError(f"architecture of {path[:80]!r} is not in data/models/measured")
    stated = row.get("moe_quant_mode") or row.get("gemm_quant_mode") or ""
    name = stated or QUANTIZATION_OF_PRECISION.get(row.get("precision", ""), row.get("precision", ""))
    if name not in QUANTIZATION:
        raise InexpressibleRowError(f"precision {name[:40]!r} is not one of {', '.join(filter(None, QUANTIZATION))}")
    try:
        published = model_from_hf_config(config, path, "")
        is_converted = published.dtype == "int4" and name == "nvfp4"
        if not name or (_is_four_bit(published) and name != "bf16" and not is_converted):
            return published
        return model_from_hf_config(_requantised(config, QUANTIZATION[name], _left_wide(config)), path, name)
    except UnsupportedModelError as error:
        raise InexpressibleRowError(f"architecture of {path[:80]!r}: {error}") from error


def _is_four_bit(model: ModelSpec) -> bool:
    return model.dtype in ("mxfp4", "int4", "nvfp4")


def _left_wide(config: Mapping[str, Any]) -> list[str]:
    """Patterns of the matrices that a checkpoint in integers leaves as they were (compressed-tensors)."""
    inner = config.get("text_config")
    own = inner.get("quantization_config") if isinstance(inner, dict) else None
    stored = own or config.get("quantization_config") or {}
    return list(stored.get("ignore") or ())


def _requantised(
    config: Mapping[str, Any], quantization: dict[str, Any] | None, left_wide: list[str]
) -> dict[str, Any]:
    stored = {**quantization, "ignore": left_wide} if quantization and left_wide else quantization
    changed = {**config, "quantization_config": stored}
    if isinstance(config.get("text_config"), dict):
        changed["text_config"] = {**config["text_config"], "quantization_config": stored}
    return changed


def _parallel(row: Mapping[str, str], prefix: str, model: ModelSpec, system: System) -> Parallel:
    """Attention tp × dp, experts over ep groups, as far as the row can be meant so.

    Some sources multiplied sizes that were equal: tp 64 with expert tp 8 and ep 8 is 8 GPUs (the row's id says
    tp8_ep8), and tp 4, dp 4, ep 16 is 4 GPUs. An empty or zero dp is what makes attention run on as many GPUs as
    experts are cut over, else 1. A tp that does not divide the heads cannot be one: such rows count GPUs, which run
    attention data parallel and experts spread over all of them. GPUs that cannot hold the weights are one rank of
    several: the fewest that can, run the same way.
    """
    tp = int(_number(row, f"{prefix}tp_size", 1)) or 1
    expert_tp = int(_number(row, f"{prefix}moe_tp_size", 1)) or 1
    ep = int(_number(row, f"{prefix}moe_ep_size", 1)) or 1
    dp = int(_number(row, f"{prefix}attention_dp_size", 0)) or max(1, expert_tp * ep // tp)
    if max(tp, dp, expert_tp, ep) > MOST_RANKS:
        raise UnreadableRowError(f"more than {MOST_RANKS} GPUs in one {prefix or 'aggregated '}worker")
    stated = _as_meant(tp, dp, expert_tp, ep, model.attention_heads)
    if model.experts is None:
        return stated
    gpus = stated.tp * stated.dp
    copies = stated.dp if stated.ep == 1 else 1
    while copies * model.weight_bytes > system.gpu.memory_bytes * gpus and gpus < MOST_RANKS:
        gpus, copies = 2 * gpus, 1
        stated = Parallel(tp=stated.tp, dp=gpus // stated.tp, ep=gpus)
    return stated


def _as_meant(tp: int, dp: int, expert_tp: int, ep: int, heads: int) -> Parallel:
    if expert_tp == ep and ep > 1 and tp * dp == ep * ep:
        return Parallel(tp=ep if dp == 1 else 1, dp=1 if dp == 1 else ep, ep=ep)
    if heads % tp and dp == 1:
        return Parallel(tp=1, dp=tp, ep=tp)
    if tp == dp and tp > 1 and ep == tp * dp:
        return Parallel(tp=1, dp=dp, ep=dp)
    if dp > 1 and expert_tp * ep == tp * dp:  # experts cut over all replicas: as many bytes a GPU as spread over them
        return Parallel(tp=tp, dp=dp, ep=tp * dp)
    return Parallel(tp=tp, dp=dp, ep=ep if (tp * dp) % ep == 0 else 1)


def _concurrency(row: Mapping[str, str], prefill: Worker, decode: Worker | None) -> float:
    """The whole deployment's; `batch_size` counts one data-parallel replica."""
    found = CONCURRENCY.search(row.get("silicon_data_source", ""))
    if found:
        return float(found.group(1))
    if decode is None:
        return _number(row, "batch_size", 1) * prefill.parallel.dp
    return _number(row, "decode_batch_size", 1) * decode.parallel.dp * max(decode.count, 1)


def _number(row: Mapping[str, str], key: str, default: float | None = None) -> float:
    text = (row.get(key) or "").strip()
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and 0 <= value < 1e12):
        raise UnreadableRowError(f"column {key!r} must be a number ≥ 0, is {text[:40]!r}")
    return value
