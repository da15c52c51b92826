"""Instances as a decision about them needs to know them."""

from collections.abc import Mapping

from control.diff.running import Running
from control.diff.target import Target
from control.lifecycle.held_node import HeldNode, scheduler_load
from templates_lib.values.instance import Instance
from templates_lib.values.template import ServingTemplate


def running_instance(
    instance: Instance, template: ServingTemplate, wanted: Target | None, held: Mapping[int, HeldNode]
) -> Running:
    """Return an instance as the diff sees it. `wanted`: as its plan has it; None when no known plan does. `held`: its
    nodes, by place."""
    load = scheduler_load(held)
    return Running(
        instance,
        template.nodes,
        {} if wanted is None else wanted.units_per_s,
        0.0 if wanted is None else wanted.usd_per_hour,
        0 if load is None else load.running,
        0 if load is None else load.waiting,
    )
