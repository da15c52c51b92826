"""Rules over several attributes of a fleet's models: what Terraform can say without the control plane."""

from typing import Any

from medley_terraform.report import Element, Path, Report
from medley_terraform.unknown import Unknown, is_known

_OF_METERED = ("forecast", "floor_requests_per_s", "ceiling_requests_per_s", "idle_minutes", "hold")


def check_models(models: Any, report: Report) -> None:
    if models is None or isinstance(models, Unknown):
        return
    for name, model in models.items():
        if isinstance(model, Unknown):
            continue
        path: Path = ("models", Element(name))
        if model["disaggregated"] is False and not model["aggregated"]:
            report.error(
                "A model with neither cannot be served", "Set aggregated, or disaggregated.", (*path, "disaggregated")
            )
        if model["demand"] is not None and is_known(model["demand"]):
            _check_demand(model["demand"], (*path, "demand"), report)


def _check_demand(demand: dict[str, Any], path: Path, report: Report) -> None:
    given = [name for name in ("requests_per_s", "trace", "metered") if demand[name]]
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "none is given"
        report.error("Demand has one source", f"Give one of requests_per_s, trace and metered = true; {said}.", path)
        return
    for name in _OF_METERED if not demand["metered"] else ():
        if demand[name] is not None:
            report.error(f"{name} is of metered demand", "Set metered = true, or leave it out.", (*path, name))
    for name in ("at", "scale") if demand["trace"] is None else ():
        if demand[name] is not None:
            report.error(f"{name} is of a trace", "Give trace, or leave it out.", (*path, name))
    forecast = demand["forecast"]
    if forecast is not None and forecast["head_room"] is False and forecast["quantile"] is not None:
        report.error("No head-room has no quantile", "Leave one of the two out.", (*path, "forecast", "quantile"))
