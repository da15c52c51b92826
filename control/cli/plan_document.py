"""A plan as a document for programs: every field of the plan, and what can be read off it."""

from typing import Any

import msgspec

from control.planning.report import PlanReport, unmet_share, usd_per_hour_by_model
from control.planning.shared_unit import shared_unit
from templates_lib.sources.placement_kinds import executors_of, gpu_executors
from templates_lib.values.plan import PlannedInstance


def plan_document(report: PlanReport) -> dict[str, Any]:
    """All of `Plan`, so that `medley check` reads it back, with `tokens_per_s` and `stages` for each instance (of an
    any-to-any model `executors`, of models that share nodes `unit`), the baselines, the demand and what the figures
    rest on. Rates and prices of an instance are of all its `count` copies, rates in `unit` of one.
    """
    plan, snapshot = report.plan, report.snapshot
    document: dict[str, Any] = {"kind": "medley/plan", "name": report.name, "mode": snapshot.settings.mode.value}
    document |= msgspec.to_builtins(plan)
    for entry, instance in zip(document["instances"], plan.instances, strict=True):
        entry["tokens_per_s"] = report.tokens_per_s(instance)
        entry["stages"] = stages(instance)
        if unit := shared_unit(instance):
            entry["unit"] = msgspec.to_builtins(unit)
        if executors := gpu_executors(instance):
            entry["executors"] = [msgspec.to_builtins(each) for each in executors]
    document["demand"] = [
        {"demand": d.key, "requests_per_s": d.requests_per_s, "unmet": plan.unmet.get(d.key, 0.0)}
        for d in snapshot.demand
    ]
    document["usd_per_hour_by_model"] = usd_per_hour_by_model(plan, snapshot)
    document["baselines"] = {name: _baseline(name, report) for name in report.baselines}
    document["cheapest_complete_baseline"] = report.cheapest_complete_baseline
    document["changes_fleet"] = report.changes_fleet
    document["basis"] = msgspec.to_builtins(report.basis)
    return document


def _baseline(name: str, report: PlanReport) -> dict[str, Any]:
    baseline, cost = report.baselines[name], report.plan.usd_per_hour
    return {
        "usd_per_hour": baseline.usd_per_hour,
        "init_usd": baseline.init_usd,
        "traffic_usd_per_hour": baseline.traffic_usd_per_hour,
        "disks_usd_per_hour": baseline.disks_usd_per_hour,
        "unmet": baseline.unmet,
        "attainment": msgspec.to_builtins(baseline.attainment),
        "unmet_share": unmet_share(baseline, report.snapshot),
        "breaks": report.broken.get(name, ()),
        "cost_ratio": baseline.usd_per_hour / cost if cost else None,
        "usd_per_hour_by_model": usd_per_hour_by_model(baseline, report.snapshot),
    }


def stages(instance: PlannedInstance) -> list[dict[str, Any]]:
    """Layer ranges (both ends included) and nodes of each stage, with its executor where there are several; empty for a
    placement of components of a graph, and one of a kind that nothing runs yet."""
    executors = executors_of(instance) or ()
    return [
        ({"executor": executor.id} if len(executors) > 1 else {})
        | {
            "first_layer": s.first_layer,
            "last_layer": s.first_layer + s.layers - 1,
            "nodes": [
                {"config": n.config, "count": n.count, "tp": n.tp, "dp": n.dp, "pp": n.pp, "ep": n.ep} for n in s.nodes
            ],
        }
        for executor in executors
        for s in executor.stages
    ]
