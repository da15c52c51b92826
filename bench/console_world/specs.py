"""The fleets of the world, as documents."""

from typing import Any

ASSISTANTS, AGENTS, IDLE, PICTURES = "assistants", "search-agents", "nightly-batch", "pictures"
PROMISING = "phi-4-14b"
"""Model of `assistants` that promises a percentile of its objectives."""
SIMULATED = 0.1
"""Scale up to which it does."""
PLANNED_PER_S = {"gpt-oss-20b": 1850, "phi-4-14b": 1000}
"""Requests that `assistants` is planned for, at scale 1."""
SERVED = {ASSISTANTS: ("gpt-oss-20b", "phi-4-14b"), AGENTS: ("phi-4-14b",)}


def _model(
    name: str,
    ttft_ms: int,
    tpot_ms: int,
    workload: str,
    requests_per_s: float,
    priority: int = 0,
    keep: Any = None,
) -> Any:
    demand = {"requests_per_s": requests_per_s, "priority": priority}
    slo = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "keep": keep or {"throughput": True}}
    return {"model": name, "slo": slo, "workload": workload, "demand": demand}


def _fleet(name: str, models: list[Any], clouds: list[Any], n_max: int) -> dict[str, Any]:
    base = {"apiVersion": "medley/v1", "kind": "Fleet", "name": name}
    # Not the cheapest plan, but soon.
    solver = {"n_max": n_max, "gap": 0.02, "nodes": 5, "incumbent_columns": 200, "proof_columns": 200}
    return base | {"models": models, "clouds": clouds, "solver": solver}


def assistants(scale: float) -> dict[str, Any]:
    """Three models on two clouds, one of them too large for most nodes. `scale` 1: about a thousand instances."""
    # A plan of a thousand instances is simulated for a minute, and there are many. Of few nodes there are fewer plans.
    promises = scale <= SIMULATED
    keep, n_max = ({"percentile": 99}, 2) if promises else (None, 3)
    models = [
        _model("gpt-oss-20b", 1500, 50, "azure-code", PLANNED_PER_S["gpt-oss-20b"] * scale, priority=1),
        _model(PROMISING, 1200, 60, "azure-conversation", PLANNED_PER_S[PROMISING] * scale, keep=keep),
        _model("qwen3-32b", 4000, 120, "azure-conversation", 270 * scale),
    ]
    clouds = [
        {"cloud": "aws", "regions": ["us-east-1"], "gpus": ["L4", "L40S"], "counts": [1, 4]},
        {"cloud": "aws", "regions": ["us-east-2"], "gpus": ["L40S"], "counts": [1], "markets": ["spot"]},
        {"cloud": "gcp", "regions": ["us-central1"], "gpus": ["L4"], "counts": [1, 2]},
    ]
    return _fleet(ASSISTANTS, models, clouds, n_max)


def agents(scale: float) -> dict[str, Any]:
    """Nodes of 24 GB: pipelines of several stages, some of two kinds of GPU."""
    models = [_model("qwen3-32b", 12000, 250, "azure-conversation", 20 * scale)]
    clouds = [{"cloud": "aws", "regions": ["us-east-1"], "gpus": ["L4", "A10G", "L40S"], "counts": [1]}]
    return _fleet(AGENTS, models, clouds, n_max=4)


def idle() -> dict[str, Any]:
    """Registered, and nothing of it was ever planned."""
    models = [_model("gpt-oss-20b", 3000, 100, "azure-code", 0.1)]
    return _fleet(IDLE, models, [{"cloud": "aws", "regions": ["us-east-2"], "gpus": ["L4"]}], n_max=3)


def pictures() -> dict[str, Any]:
    """An any-to-any model, which is planned and not served."""
    slo = {"ttft_ms": 4000, "tpot_ms": 60}
    shares = {"image-text-to-text": 0.7, "text-to-text": 0.3}
    types = [{"type": name, "share": share, "slo": slo} for name, share in shares.items()]
    app = {"name": "vl", "graph": "qwen2.5-vl-7b", "request_types": types, "demand": {"requests_per_s": 30}}
    clouds = [{"cloud": "aws", "regions": ["us-east-2"], "gpus": ["L40S", "L4"], "counts": [1]}]
    return _fleet(PICTURES, [], clouds, n_max=1) | {"apps": [app]}
