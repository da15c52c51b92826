"""Plans, templates and instances of a small fleet on the local cloud."""

from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from control.diff.target import Target
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Market
from templates_lib.values.placement import PipelinePlacement, Placement, Stage, StageNodes
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.template import ServingTemplate, template_id
from tests.factories import plan

ZONE, MARKET = "local/here", Market.ON_DEMAND


def template(
    layers: tuple[int, ...] = (4, 2),
    kv_blocks: int = 24,
    model: str = "tiny",
    engine: str = "torch",
    config: str = "small:1/n10",
    splits: tuple[tuple[int, int, int, int], ...] = (),
) -> ServingTemplate:
    """One node a stage. `splits`: (tp, dp, pp, ep) of each; one device and worker where nothing is said."""
    first, stages = 0, []
    for number, (held, split) in enumerate(zip_longest(layers, splits, fillvalue=(1, 1, 1, 1))):
        node = StageNodes(config, 1, 1.0, *split, 4 * split[1], 16 * split[1], kv_blocks)
        stages.append(Stage(first, held, number == 0, number == len(layers) - 1, (node,)))
        first += held
    placement = Placement("pipeline", 1, asdict(PipelinePlacement(tuple(stages))))
    parts = (model, "r1", "fp32", engine, "lockstep-v1", {config: len(layers)}, placement)
    return ServingTemplate(template_id(*parts), *parts)


def planned(count: int = 1, phase: str = "aggregated", zone: str = ZONE, **changes: Any) -> PlannedInstance:
    """`changes`: of its template, and `model`, the name that the fleet gives it."""
    name = changes.pop("model", "chat")
    of = template(**changes)
    units = {f"{name}/{phase}": 2.0}
    return PlannedInstance(
        of.id, name, phase, zone, MARKET, count, 0, of.nodes, units, 0.02 * count, of.placement, of.software
    )


def plan_of(*instances: PlannedInstance, **changes: Any) -> Plan:
    return plan(*instances, **changes)


def want(count: int = 1, plan_id: str = "plan-1", **changes: Any) -> Target:
    of = template(**changes)
    return Target(plan_id, "chat", of, ZONE, MARKET, count, {"chat/aggregated": 2.0}, 0.0)


def instance(name: str, of: Target, state: str = InstanceState.READY, since: str = "") -> Instance:
    return Instance(name, of.template.id, of.zone, of.market, state, (), state_since=since, fleet="f")
