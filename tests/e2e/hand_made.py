"""A recorded snapshot that somebody wrote by hand, with its templates: planned in no time, and known by heart."""

from typing import Any


def hand_made() -> dict[str, Any]:
    """Two classes on one mesh, two operating points: nothing that the pipeline source would make."""
    software = {"model": "pair", "model_revision": "1", "dtype": "bf16", "engine": "mux", "dispatch": "quota-v1"}
    points = [{"units_per_s": {"chat/serve": 9.0, "code/serve": 1.0}}, {"units_per_s": {"code/serve": 7.0}}]
    classes = [
        {
            "id": f"{m}/serve",
            "component": m,
            "phase": "serve",
            "unit": "invocation",
            "shape_id": "s",
            "slo_share_ms": 1.0,
        }
        for m in ("chat", "code")
    ]
    offer = {
        "cloud": "aws", "region": "r", "zone": "z", "instance_type": "g6", "node_config": "L4:1/n25",
        "market": "on-demand", "usd_per_hour": 1.0, "available_count": 10,
    }  # fmt: skip
    routes = [
        {"id": m, "app": m, "request_type": "any", "legs": [{"work_class": f"{m}/serve", "units_per_request": 1.0}]}
        for m in ("chat", "code")
    ]
    template = {
        "software": software, "nodes": {"L4:1/n25": 2}, "points": points,
        "placement": {"kind": "shared-mesh", "version": 1, "payload": {}},
    }  # fmt: skip
    return {
        "format": "medley/snapshot/v1",
        "name": "pair",
        "snapshot": {
            "version": "", "now": "2026-11-21T00:00:00+00:00", "offers": [offer], "pools": [], "traffic": [],
            "instances": [], "routes": routes, "settings": {"utilisation_cap": 1.0}, "library_version": "",
            "cost_model_fingerprint": "",
            "demand": [{"app": "chat", "request_type": "any", "requests_per_s": 12.0},
                       {"app": "code", "request_type": "any", "requests_per_s": 3.0}],
        },
        "recipe": {"listed": {"classes": classes, "templates": [template]}},
    }  # fmt: skip
