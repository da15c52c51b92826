"""Units of executors for tests."""

from dataclasses import replace
from typing import Any

import msgspec

from templates_lib.sources.placement_kinds import UNIT
from templates_lib.values.placement import Executor, Placement, Share, Stage, StageNodes, UnitPlacement
from templates_lib.values.template import ServingTemplate, template_id

CONFIG = "small:1/n10"


def executor(name: str, slots: tuple[tuple[int, ...], ...] = ((0,),), **changes: Any) -> Executor:
    """One of engine `echo`, which has a layer for each of its stages."""
    stages = tuple(
        Stage(
            number,
            1,
            number == 0,
            number == len(slots) - 1,
            (StageNodes(CONFIG, len(own), 1.0, 1, 1, 1, 1, 4, 16, 64),),
        )
        for number, own in enumerate(slots)
    )
    return replace(Executor(name, name, "echo", "fp32", stages, slots, Share()), **changes)


def unit_template(*executors: Executor, nodes: dict[str, int] | None = None, **changes: Any) -> ServingTemplate:
    placement = Placement(UNIT, 1, msgspec.to_builtins(UnitPlacement(executors)) | changes)
    parts = ("both", "r1", "fp32", "echo", "lockstep-v1", {CONFIG: 1} if nodes is None else nodes, placement)
    return ServingTemplate(template_id(*parts), *parts)
