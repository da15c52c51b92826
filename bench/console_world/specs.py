"""The fleets of the world, as documents."""

from typing import Any

ASSISTANTS, AGENTS, IDLE = "assistants", "search-agents", "nightly-batch"
SERVED = {ASSISTANTS: ("gpt-oss-20b", "phi-4-14b"), AGENTS: ("phi-4-14b",)}


def _model(name: str, ttft_ms: int, tpot_ms: int, workload: str, requests_per_s: float, priority: int = 0) -> Any:
    demand = {"requests_per_s": requests_per_s, "priority": priority}
    return {"model": name, "slo": {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms}, "workload": workload, "demand": demand}


def _fleet(name: str, models: list[Any], clouds: list[Any], **policy: Any) -> dict[str, Any]:
    base = {"apiVersion": "medley/v1", "kind": "Fleet", "name": name}
    # Not the cheapest plan, but soon.
    solver = {"n_max": 2, "gap": 0.05, "nodes": 5, "incumbent_columns": 200, "proof_columns": 200}
    return base | {"models": models, "clouds": clouds, "policy": policy, "solver": solver}


def assistants(scale: float) -> dict[str, Any]:
    """Two models on two clouds. `scale` 1: about a thousand instances."""
    models = [
        _model("gpt-oss-20b", 1500, 50, "azure-code", 3850 * scale, priority=1),
        _model("phi-4-14b", 1200, 60, "azure-conversation", 2310 * scale),
    ]
    clouds = [
        {
            "cloud": "aws", "regions": ["us-east-1", "us-east-2"], "gpus": ["L4", "L40S"],
            "counts": [1, 4], "markets": ["on-demand", "spot"],
        },
        {"cloud": "gcp", "regions": ["us-central1"], "gpus": ["L4"], "counts": [1, 2],
         "markets": ["on-demand", "spot"]},
    ]  # fmt: skip
    return _fleet(ASSISTANTS, models, clouds, max_spot_share=0.5)


def agents(scale: float) -> dict[str, Any]:
    models = [_model("phi-4-14b", 1200, 60, "azure-conversation", 20 * scale)]
    clouds = [{"cloud": "aws", "regions": ["us-east-1"], "gpus": ["L4", "L40S"], "counts": [1, 4]}]
    return _fleet(AGENTS, models, clouds)


def idle() -> dict[str, Any]:
    """Registered, and nothing of it was ever planned."""
    models = [_model("gpt-oss-20b", 3000, 100, "azure-code", 0.1)]
    return _fleet(IDLE, models, [{"cloud": "aws", "regions": ["us-east-2"], "gpus": ["L4"]}])
