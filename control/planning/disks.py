"""What disks of rented nodes cost, by the list prices of `data/prices/disks.csv`: beside plans, not in their cost."""

from collections.abc import Iterable
from functools import cache

from control.offers.prices import data_rows
from templates_lib.apps.served_model import ServedModel
from templates_lib.models.model_spec import ModelSpec
from templates_lib.models.node_disk import disk_gib
from templates_lib.sources.placement_kinds import Placed, executors_of
from templates_lib.values.plan import Plan

_HOURS_PER_MONTH = 730


def models_on(placed: Placed, model: str, served: Iterable[ServedModel]) -> list[ModelSpec]:
    """Return the models that a node of a template may hold parts of. `model`: what the template serves, where its
    executors name no components."""
    parts = {executor.component for executor in executors_of(placed) or ()} or {model}
    return [each.model for each in served if any(map(each.is_component, parts))]


def engines_on(placed: Placed) -> tuple[str, ...]:
    """Return the engines of a template's executors."""
    return tuple(executor.engine for executor in executors_of(placed) or ())


def disks_usd_per_hour(plan: Plan, served: Iterable[ServedModel]) -> float:
    """Return $/h of the disks of all nodes of a plan. Clouds whose disks are not in the list, and machines of one's
    own, cost nothing here."""
    listed = tuple(served)
    usd = 0.0
    for each in plan.instances:
        per_gib_month = _prices().get(each.zone.partition("/")[0], 0.0)
        if per_gib_month:
            nodes = each.count * sum(each.nodes.values())
            usd += (
                nodes
                * disk_gib(models_on(each, each.model, listed), engines_on(each))
                * per_gib_month
                / _HOURS_PER_MONTH
            )
    return usd


@cache
def _prices() -> dict[str, float]:
    return {row["cloud"]: float(row["usd_per_gib_month"]) for row in data_rows("disks.csv")}
